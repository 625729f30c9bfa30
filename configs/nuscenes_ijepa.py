"""nuScenes at the paper's scale: ViT-S/16 at 224 pixels, front against rear camera.

FOLDER is nuScenes' data root: the tables in v1.0-trainval, the key frames in samples. Whole scenes
are held out; --config.data.split_by=token is the paper's split, which trains on the neighbours of
held-out samples, half a second away. --config.data.pair=front_left or front_back_left is "front
against side", which the paper does not define. The paper's "mild colour jitter" has no numbers;
half of its ImageNet jitter, without hue, is taken.

Paper: Social-JEPA, Table 1, Table 3 (nuScenes: 200 epochs, batch 256, peak 3e-4, weight decay 0.05)
and appendix A.
Command: python -m socialjepa_jax.train --config=configs/nuscenes_ijepa.py \
    --config.data.path=FOLDER --workdir=runs/nuscenes
Cost: 224 PFLOP: 20.65 GFLOP per image, 2 agents, 21,200 steps of 256: 200 epochs of the 27,300
samples of 680 of the 850 scenes (34,149 samples).
Expected: not run; the paper has R2 0.852, DSC 0.821 and NOS@10 0.34, on the leaking split.
"""

import ml_collections

from configs import toys_ijepa_vits
from socialjepa_jax.config import to_plain
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.colour import Colour
from socialjepa_jax.data.nuscenes import NuScenesData

EPOCHS, STEPS_PER_EPOCH = 200, 106


def get_config() -> ml_collections.ConfigDict:
    """Returns the settings of toys_ijepa_vits on nuScenes, in colour and for its epochs."""
    config = toys_ijepa_vits.get_config()
    config.name = "nuScenes, I-JEPA ViT-S/16, front against rear"
    config.data = to_plain(NuScenesData(path="data/nuscenes"))
    config.objective.vit.channels = 3
    colours = Colour(jitter=(0.2, 0.2, 0.2, 0.0))
    config.augment = to_plain(Augment(crop_scale=(0.5, 1.0), colours=colours))
    config.run.steps = EPOCHS * STEPS_PER_EPOCH
    config.run.steps_per_call = 2  # the images of more would be read ahead
    config.run.log_every = 100
    config.run.eval_every = config.run.save_every = 20 * STEPS_PER_EPOCH
    return config
