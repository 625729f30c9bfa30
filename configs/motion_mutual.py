"""Two models learn at once from two cameras of one world, and each pulls the other.

Paper: Social-JEPA, section 3.7 and Algorithm 2, mutual teaching ("Method B"); here in a world in
motion. The page is that of the first members, on camera 0.
Command: python -m socialjepa_jax.train --preset=motion_mutual --workdir=runs/mutual
Cost: 70 seconds on two CPU cores.
Expected: R2 of the state of the first members is 0.56 and 0.59 after 200 steps, and 0.54 and 0.56
without the coupling (--config.objective.weight=0): at this length it helps little.
"""

import dataclasses

import ml_collections

from configs import motion_lejepa
from socialjepa_jax.config import Agents, from_config_dict, to_config_dict
from socialjepa_jax.objectives.coupled import Link, Mutual


def get_config() -> ml_collections.ConfigDict:
    """Returns two pairs of models, the first of each on camera 0 and the second on camera 1."""
    base = from_config_dict(motion_lejepa.get_config())
    return to_config_dict(
        dataclasses.replace(
            base,
            name="Two models that teach each other",
            objective=Mutual(objective=base.objective, link=Link(memory=1024, every=10)),
            agents=Agents(cameras=(0, 0), seeds=(10, 11), partners=(1, 1), partner_seeds=(20, 21)),
            run=dataclasses.replace(
                base.run, steps=200, steps_per_call=25, log_every=25, eval_every=100, save_every=100
            ),
        )
    )
