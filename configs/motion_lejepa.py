"""Two agents learn the state of a world in motion from two cameras, and agree up to a rotation.

Paper: LeJEPA's theory ("When Does LeJEPA Learn a World Model?"), in rendered images; Social-JEPA's
claim that agents differ by a linear map. Neither paper has this experiment.
Command: python -m socialjepa_jax.train --preset=motion_lejepa --workdir=runs/motion
Cost: 45 to 105 seconds on two CPU cores (10,000-30,000 images/s), all included; rendering takes
10-12 % of the CPU time, and with --config.data.pool=0 about 65 % of every step.
Expected: R2 of the state 0.97 for every agent, R2 of W 0.98, of the map from actions within 0.01 of
that; at most 0.4 for untrained encoders and pixel components.
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
from socialjepa_jax.objectives.pairs.frames import FramePairs
from socialjepa_jax.optim import AdamW


def get_config() -> ml_collections.ConfigDict:
    """Returns the flicker world with three agents, the third on the first one's camera."""
    return to_config_dict(
        Experiment(
            name="A world in motion: two cameras, LeJEPA on successive frames",
            data=MotionData(),
            objective=FramePairs(num_slices=64),
            agents=Agents(cameras=(0, 1, 0), seeds=(0, 1, 2)),
            optim=AdamW(
                learning_rate=6e-3,
                warmup_fraction=0.05,
                weight_decay=1e-4,
                final_weight_decay=1e-4,
                clip=1.0,
            ),
            run=Run(
                steps=1000,
                batch_size=128,
                steps_per_call=50,
                log_every=50,
                eval_every=250,
                save_every=500,
            ),
            checkpoint=Checkpoint(best_metric="none"),
        )
    )
