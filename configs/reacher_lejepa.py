"""DMC Reacher seen by two cameras: LeJEPA on successive images finds both joint angles.

Paper: "When Does LeJEPA Learn a World Model?", section 5.3, the Ornstein-Uhlenbeck condition; here
for two cores: images of 32 pixels, a patch network, 12,000 pairs an agent and 2,400 steps, where
the paper has 64 pixels, a convolutional encoder, 100,000 pairs and 39,000 steps
(`python -m experiments.reproduce --only=reacher_ou --scale=paper`).
Command: python -m socialjepa_jax.train --preset=reacher_lejepa --workdir=runs/reacher
Cost: 5 CPU minutes, after 10 to render 36,864 images once into runs/cache; needs
pip install -e '.[train,reacher]' unless they are there.
Expected: R2 of the joints 0.91 (one agent, another seed; a linear readout of the wrapped angles has
0.95 on the same states). R2 of W has not been measured. Runs of 1,200 steps often lose the wrist,
see docs/results.md.
"""

import ml_collections

from socialjepa_jax.config import (
    Agents,
    Checkpoint,
    Experiment,
    Run,
    to_config_dict,
)
from socialjepa_jax.data import ReacherData
from socialjepa_jax.objectives.pairs.frames import FramePairs
from socialjepa_jax.optim import AdamW


def get_config() -> ml_collections.ConfigDict:
    """Returns the Ornstein-Uhlenbeck condition with three agents, the third on the first camera."""
    return to_config_dict(
        Experiment(
            name="DMC Reacher: two cameras, LeJEPA on successive frames",
            data=ReacherData(),
            objective=FramePairs(outputs=2, num_slices=64, weight=0.01, weight_rule="fixed"),
            agents=Agents(cameras=(0, 1, 0), seeds=(0, 1, 2)),
            optim=AdamW(
                learning_rate=3e-3,
                warmup_fraction=0.05,
                weight_decay=1e-4,
                final_weight_decay=1e-4,
                clip=1.0,
            ),
            run=Run(
                steps=2400,
                batch_size=128,
                steps_per_call=50,
                log_every=100,
                eval_every=600,
                save_every=1200,
            ),
            checkpoint=Checkpoint(best_metric="none"),
        )
    )
