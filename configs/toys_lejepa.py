"""The toy world of toys_ijepa, one LeJEPA an agent: no teacher, no masks, one weight.

Paper: LeJEPA (arXiv:2511.08544), section 5: lambda 0.05, 2 global and 6 local views, 1,024 slices.
Command: python -m socialjepa_jax.train --config=configs/toys_lejepa.py --workdir=runs/toys_lejepa
Cost: about ten minutes on two CPU cores: every picture is encoded eight times. Two agents.
Expected: no collapse: sigreg_null falls towards 1 and latent_rank rises throughout. The projector
normalises its hidden features over the batch, since a fresh ViT's CLS tokens differ so little
between pictures that SIGReg spreads them slowly through a linear one (after 300 steps sigreg_null
9.7 against 5.1, latent_rank 2.1 against 4.2).
"""

import ml_collections

from configs import toys_ijepa
from socialjepa_jax.config import Agents, to_plain
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.colour import Colour
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.lejepa import LeJepa

GREY = Colour(jitter=(0.4, 0.4, 0.0, 0.0))


def views(
    colours: Colour, *, flip: bool, large: int = 2, small: int = 6, local_size: int = 24
) -> MultiCrop:
    """Crops of 40-100 % of a picture and, of `local_size` pixels, of 10-40 %."""
    whole = Augment(crop_scale=(0.4, 1.0), flip=flip, colours=colours)
    part = Augment(crop_scale=(0.1, 0.4), flip=flip, colours=colours)
    return MultiCrop(large, small, local_size, view_a=whole, view_b=whole, local=part)


def get_config() -> ml_collections.ConfigDict:
    """The data, encoder and schedule of toys_ijepa."""
    config = toys_ijepa.get_config()
    config.name = "Toys, LeJEPA, 0 against 160 degrees"
    objective = LeJepa(
        encoder=ViTConfig(**config.objective.vit),
        projector_layers=3,
        projector_width=256,
        projector_dim=32,
        views=views(GREY, flip=True),
    )
    config.objective = to_plain(objective)
    config.augment = to_plain(Augment())
    config.agents = to_plain(Agents(cameras=(0, 1), seeds=(0, 1)))
    return config
