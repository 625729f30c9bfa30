"""Two cameras 160 degrees apart on a rendered toy world, one I-JEPA each, in minutes on a CPU.

Paper: Social-JEPA, sections 3-4 (smallNORB's protocol, 0 against 160 degrees), made small.
Command: python -m socialjepa_jax.train --config=configs/toys_ijepa.py --workdir=runs/toys
Cost: four to five minutes on two CPU cores (1,450-2,400 images/s).
Expected: R2 0.86 and 0.87 between the cameras (two pairs, held-out objects, one run on jax 0.10.2),
untrained 0.80 and 0.82, pixel PCA 0.65 and 0.63; 8.0 shared dimensions, untrained 2.9, pixel PCA
11.7; DSC 0.78, untrained 0.71; NOS@10 0.57, untrained 0.85; RankMe 9.7-10.3. The third agent shares
only the first one's camera; between these two R2 is 0.98, the ceiling.
"""

import ml_collections

from socialjepa_jax.config import Agents, Experiment, Run, to_config_dict
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.base import Protocol, Splits
from socialjepa_jax.data.toys import ToysData
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.optim import AdamW


def get_config() -> ml_collections.ConfigDict:
    """Returns the default experiment."""
    return to_config_dict(
        Experiment(
            name="Toys, I-JEPA, 0 against 160 degrees",
            data=ToysData(
                instances=20,
                image_size=48,
                channels=1,
                samples_per_pixel_side=1,
                protocol=Protocol("norb", azimuths=(0, 160)),
                splits=Splits(test_instances=4, test_states=0.2, seed=0),
                seed=0,
            ),
            objective=IJepa(
                vit=ViTConfig(image_size=48, patch_size=8, channels=1, width=64, depth=4, heads=4),
                predictor="mlp_patch",
                mlp_width=256,
                target_norm="layernorm",
                latent_encoder="target",
            ),
            augment=Augment(crop_scale=(0.5, 1.0), flip=True),
            agents=Agents(cameras=(0, 1, 0), seeds=(0, 1, 2)),
            optim=AdamW(learning_rate=1e-3),
            run=Run(
                steps=1600,
                batch_size=64,
                steps_per_call=25,
                log_every=100,
                eval_every=400,
                save_every=400,
            ),
        )
    )
