"""The photographs of eth80_ijepa, one LeJEPA an agent.

Paper: LeJEPA (arXiv:2511.08544), section 5.
Command: python -m socialjepa_jax.train --config=configs/eth80_lejepa.py \
    --config.data.path=eth80_96.npz --workdir=runs/eth80_lejepa
The file is that of eth80_ijepa.
Cost: that of toys_lejepa.
Expected: no collapse; the settings are those of toys_lejepa, in colour. No setting was chosen on
these photographs.
"""

from typing import Any

import ml_collections

from configs import eth80_ijepa, toys_lejepa
from socialjepa_jax.config import to_plain
from socialjepa_jax.data.augment.colour import Colour
from socialjepa_jax.data.augment.views import MultiCrop

COLOURS = Colour(jitter=(0.4, 0.4, 0.4, 0.1), grey=0.2)


def views(**sizes: Any) -> MultiCrop:
    """The crops of toys_lejepa in colour; a mirrored pose is another pose."""
    return toys_lejepa.views(COLOURS, flip=False, **sizes)


def get_config() -> ml_collections.ConfigDict:
    """The settings of toys_lejepa on photographs, in colour."""
    config, photographs = toys_lejepa.get_config(), eth80_ijepa.get_config()
    config.name = "ETH-80, LeJEPA, opposite half circles"
    config.data = photographs.data
    config.objective.encoder.channels = 3
    config.objective.views = to_plain(views())
    return config
