"""The toy world of toys_ijepa, with a LeJEPA per agent: no teacher, no masks, one weight.

The projector normalises its hidden features over the batch: the CLS tokens of a fresh ViT differ so
little between images that SIGReg spreads them slowly through a linear projector (after 300 steps
sigreg_null is 9.7 instead of 5.1, latent_rank 2.1 instead of 4.2).

Paper: LeJEPA (arXiv:2511.08544), section 5: lambda 0.05, 2 global and 6 local views, 1,024 slices.
Command: python -m socialjepa_jax.train --config=configs/toys_lejepa.py --workdir=runs/toys_lejepa
Cost: about ten minutes on two CPU cores (210-240 images/s on one): an image has eight views.
Expected: R2 0.71 between the cameras (held-out objects, one pair, one run on jax 0.10.2), untrained
0.80 and 0.82, pixel PCA 0.65; 7.2 shared dimensions, untrained 2.9 and 3.2, pixel PCA 11.0; NOS@10
0.54, untrained 0.85; RankMe 22, untrained 10; SIGReg 3.3-3.5 times its null level. Training lowers
R2 because it raises the rank. `sj.load("toys_lejepa")` loads both agents.
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
    """Returns large crops of 40-100 % of the area and small ones of 10-40 %, `local_size` wide."""
    whole = Augment(crop_scale=(0.4, 1.0), flip=flip, colours=colours)
    part = Augment(crop_scale=(0.1, 0.4), flip=flip, colours=colours)
    return MultiCrop(large, small, local_size, view_a=whole, view_b=whole, local=part)


def get_config() -> ml_collections.ConfigDict:
    """Returns LeJEPA with the data, encoder and schedule of toys_ijepa."""
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
