"""The toy world of toys_ijepa, with a masked autoencoder per agent: pixels instead of latents.

Paper: MAE (arXiv:2111.06377), section 3: 75 % of the patches masked, normalised pixels, a decoder
narrower and shallower than the encoder.
Command: python -m socialjepa_jax.train --config=configs/toys_mae.py --workdir=runs/toys_mae
Cost: four minutes on one CPU core, at 1,500 images/s.
Expected: a loss of 0.60-0.61; the best constant prediction has 0.95 (target_variance). No loss acts
on the CLS tokens, which are the latents: their RankMe is 8, 9 and 16. R2 on held-out objects
0.72 between the cameras (two pairs: 0.82, 0.62), untrained encoders 0.81, shared factors alone
0.70, two agents of the same camera 0.78: training does not add alignability.
"""

import ml_collections

from configs import toys_ijepa
from socialjepa_jax.config import to_plain
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.mae import Mae


def get_config() -> ml_collections.ConfigDict:
    """Returns MAE with the data, encoder, agents and schedule of toys_ijepa."""
    config = toys_ijepa.get_config()
    config.name = "Toys, MAE, 0 against 160 degrees"
    vit = ViTConfig(**config.objective.vit)
    objective = Mae(vit=vit, decoder_width=48, decoder_depth=2, decoder_heads=4)
    config.objective = to_plain(objective)
    return config
