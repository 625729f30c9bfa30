"""A two-link arm seen by two cameras at 64 pixels: the published encoder and its 39,000 steps.

Paper: "When Does LeJEPA Learn a World Model?", Reacher: a convolutional encoder with BatchNorm,
100,000 pairs of images rendered beforehand, 100 epochs of batch 256, AdamW 3e-3, weight decay 1e-4,
clip 1.0, 256 slices, 10,000 states to fit and 10,000 to score, normal angles of one radian.
Different here: a ray caster in place of MuJoCo, two cameras, and lambda 0.1 (1 - rho_hat), 0.01 at
this rho, where the paper takes the best of 0.001, 0.005, 0.01 and 0.05.
Command: python -m socialjepa_jax.train --preset=motion_conv --workdir=runs/motion_conv
Cost: 9.45 PFLOP: 0.315 GFLOP a pair, 3 agents, 39,000 steps of 256; the pairs take 7.4 GB of GPU
memory, and twice that of host memory while they are rendered.
Expected: not measured, no GPU has run it; the paper has R2 0.95 of the state at this rho, and no
readout of such images can have more than 0.949 (`experiments.motion.arm.turns`).
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
from socialjepa_jax.models.cnn import CNNConfig
from socialjepa_jax.objectives.pairs.frames import FramePairs
from socialjepa_jax.optim import AdamW


def get_config() -> ml_collections.ConfigDict:
    """Returns the clean world of the arm with three agents, the third on the first one's camera."""
    return to_config_dict(
        Experiment(
            name="A two-link arm in motion: two cameras, the convolutional encoder of the paper",
            data=MotionData(
                latents=("shoulder", "elbow"),
                radians=(1.0, 1.0),
                elevation=60.0,
                image_size=64,
                flicker=0.0,
                pool=100_000,
                states=20_000,
                actions=2,
            ),
            objective=FramePairs(encoder=CNNConfig(outputs=0), outputs=2, num_slices=256),
            agents=Agents(cameras=(0, 1, 0), seeds=(0, 1, 2)),
            optim=AdamW(
                learning_rate=3e-3,
                warmup_fraction=0.0,
                weight_decay=1e-4,
                final_weight_decay=1e-4,
                beta2=0.999,
                clip=1.0,
            ),
            run=Run(
                steps=39_000,
                batch_size=256,
                steps_per_call=50,
                log_every=300,
                eval_every=3_900,
                save_every=3_900,
            ),
            checkpoint=Checkpoint(best_metric="none"),
        )
    )
