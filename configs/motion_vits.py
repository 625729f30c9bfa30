"""The world of motion_lejepa at 64 pixels with a ViT-S/8, on fresh pairs: two agents, for one GPU.

Paper: none has this experiment; optimisation as in Social-JEPA's appendix A.1-A.2 (AdamW (0.9,
0.95), peak 3e-4, weight decay 0.05, clip 1.0, batch 256). Every step draws and renders its own
pairs, as an encoder of this size could memorise a pool of them.
Command: python -m socialjepa_jax.train --preset=motion_vits --workdir=runs/motion_vits
Cost: 87.4 PFLOP: 17.07 GFLOP a pair, 2 agents, 10,000 steps of 256; and rendering, in every step.
Expected: not measured, no GPU has run it; motion_lejepa has R2 0.97 of the state and 0.98 of W.
"""

import ml_collections

from socialjepa_jax.config import (
    Agents,
    Checkpoint,
    Experiment,
    Run,
    to_config_dict,
)
from socialjepa_jax.data import MotionData
from socialjepa_jax.models.vit import SIZES, ViTConfig
from socialjepa_jax.objectives.pairs.frames import FramePairs
from socialjepa_jax.optim import AdamW


def get_config() -> ml_collections.ConfigDict:
    """Returns the flicker world with two agents, each with a ViT-S/8 of bfloat16 products."""
    return to_config_dict(
        Experiment(
            name="A world in motion: two cameras, ViT-S on fresh pairs of successive frames",
            data=MotionData(image_size=64, pool=0),
            objective=FramePairs(
                encoder=ViTConfig(image_size=64, patch_size=8, dtype="bfloat16", **SIZES["S"]),
                latent="cls",
                num_slices=256,
            ),
            agents=Agents(cameras=(0, 1), seeds=(0, 1)),
            optim=AdamW(learning_rate=3e-4, weight_decay=0.05, final_weight_decay=0.05),
            run=Run(
                steps=10_000,
                batch_size=256,
                steps_per_call=10,
                log_every=100,
                eval_every=1_000,
                save_every=1_000,
            ),
            checkpoint=Checkpoint(best_metric="none"),
        )
    )
