"""The photographs of eth80_ijepa, with a LeJEPA per agent: the settings of toys_lejepa, in colour.

Paper: LeJEPA (arXiv:2511.08544), section 5.
Command: python -m socialjepa_jax.train --config=configs/eth80_lejepa.py \
    --config.data.path=eth80_96.npz --workdir=runs/eth80_lejepa
Cost: about ten minutes on two CPU cores.
Expected: not run to its end. After 800 of its 1,600 steps (three seeds, held-out objects): R2 0.811
[0.70, 0.92] between the cameras, untrained 0.816, pixel PCA 0.727; 9.6 shared dimensions, untrained
7.9, pixel PCA 25.2; NOS@10 0.49, untrained 0.64; RankMe 15.2, untrained 11.7; SIGReg 3.0-3.3 times
its null level. No setting was chosen on these photographs.
"""

from typing import Any

import ml_collections

from configs import eth80_ijepa, toys_lejepa
from socialjepa_jax.config import to_plain
from socialjepa_jax.data.augment import VIEW_A
from socialjepa_jax.data.augment.views import MultiCrop


def views(**sizes: Any) -> MultiCrop:
    """Returns the crops of toys_lejepa in colour, not flipped: a mirrored pose is another one."""
    return toys_lejepa.views(VIEW_A.colours, flip=False, **sizes)


def get_config() -> ml_collections.ConfigDict:
    """Returns the settings of toys_lejepa on photographs, in colour."""
    config, photographs = toys_lejepa.get_config(), eth80_ijepa.get_config()
    config.name = "ETH-80, LeJEPA, opposite half circles"
    config.data = photographs.data
    config.objective.encoder.channels = 3
    config.objective.views = to_plain(views())
    return config
