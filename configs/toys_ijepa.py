"""Two cameras 160 degrees apart on a rendered toy world, one I-JEPA each, in minutes on a CPU.

Paper: Social-JEPA, sections 3-4 (smallNORB's protocol, 0 against 160 degrees), made small.
Command: python -m socialjepa_jax.train --config=configs/toys_ijepa.py --workdir=runs/toys
Cost: four to five minutes on two CPU cores (3.4 measured on jax 0.10.2). The third agent shares the
first one's camera and nothing else: it is the ceiling of what another seed alone leaves.
Expected: see the honest table in BUILD_NOTES.md, which trains this on finer patches and longer.
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
    """The five-minute default."""
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
