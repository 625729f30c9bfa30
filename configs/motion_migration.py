"""Students on the second camera are pulled towards an agent that has learned on the first one.

Paper: Social-JEPA, section 3.7 and Algorithm 2, teacher-student migration; here in a world in
motion, with an agent of `motion_lejepa` as the teacher.
Command: python -m socialjepa_jax.train --preset=motion_migration --workdir=runs/students
(after that of motion_lejepa, whose runs/motion holds the teacher)
Cost: 1 minute on two CPU cores.
Expected: R2 of the state is 0.93 and 0.90 after 200 steps, and 0.59 and 0.63 without the teacher
(--config.objective.weight=0). Two students and one teacher; the teacher's own cost is not counted.
"""

import dataclasses

import ml_collections

from configs import motion_lejepa
from socialjepa_jax.config import Agents, from_config_dict, to_config_dict
from socialjepa_jax.objectives.coupled import Link, Migration


def get_config() -> ml_collections.ConfigDict:
    """Returns two students on camera 1, each taught by the first agent of `motion_lejepa`."""
    base = from_config_dict(motion_lejepa.get_config())
    return to_config_dict(
        dataclasses.replace(
            base,
            name="Students beside a teacher on another camera",
            objective=Migration(
                objective=base.objective,
                teacher="runs/motion",
                teachers=(0, 0),
                link=Link(memory=1024, every=10),
            ),
            agents=Agents(cameras=(1, 1), seeds=(10, 11), partners=(0, 0)),
            run=dataclasses.replace(
                base.run, steps=200, steps_per_call=25, log_every=25, eval_every=100, save_every=100
            ),
        )
    )
