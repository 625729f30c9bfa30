"""The toy world at the paper's scale: ViT-S/16 at 224 pixels, two agents, for one GPU.

Paper: Social-JEPA, appendix A.1-A.2 and Table 3 (smallNORB's column): AdamW (0.9, 0.95), peak
3e-4, weight decay 0.05, clip 1.0, batch 256, 4 target blocks of 7x7, EMA 0.996 -> 1.0, predictor
width 2048, latent CLS.
Command: python -m socialjepa_jax.train --config=configs/toys_ijepa_vits.py --workdir=runs/vits
Cost: 14.3 PFLOP: 20.65 GFLOP per image, 2 agents, 1,350 steps of 256 (200 epochs of 1,734 states).
Expected: not run to its end; the paper has R2 0.891, DSC 0.872 and NOS@10 0.27 on smallNORB.
"""

import ml_collections

from socialjepa_jax.config import Agents, Experiment, Run, to_config_dict
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.base import Protocol, Splits
from socialjepa_jax.data.toys import ToysData
from socialjepa_jax.models.vit import SIZES, ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.optim import AdamW


def get_config() -> ml_collections.ConfigDict:
    """Returns the experiment with the ViT-S/16 of Table 3."""
    return to_config_dict(
        Experiment(
            name="Toys, I-JEPA ViT-S/16, 0 against 160 degrees",
            data=ToysData(
                instances=10,
                image_size=224,
                channels=1,
                samples_per_pixel_side=1,
                protocol=Protocol("norb", azimuths=(0, 160)),
                splits=Splits(test_instances=2, test_states=0.2, seed=0),
                seed=0,
            ),
            objective=IJepa(
                vit=ViTConfig(
                    image_size=224, patch_size=16, channels=1, dtype="bfloat16", **SIZES["S"]
                ),
                predictor="mlp_patch",
                mlp_width=2048,
            ),
            augment=Augment(crop_scale=(0.5, 1.0), flip=True),
            agents=Agents(cameras=(0, 1), seeds=(0, 1)),
            optim=AdamW(learning_rate=3e-4, weight_decay=0.05, final_weight_decay=0.05),
            run=Run(
                steps=1350,
                batch_size=256,
                steps_per_call=10,
                log_every=50,
                eval_every=270,
                save_every=270,
                encode_batch=128,
            ),
        )
    )
