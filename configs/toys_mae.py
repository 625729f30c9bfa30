"""The toy world of toys_ijepa, one masked autoencoder an agent: pixels instead of latents.

Paper: MAE (arXiv:2111.06377), section 3: 75 % of the patches masked, normalised pixels, a decoder
narrower and shallower than the encoder.
Command: python -m socialjepa_jax.train --config=configs/toys_mae.py --workdir=runs/toys_mae
Cost: three minutes of training at 1,700 pictures/s, which one CPU core does, and the evaluations.
Expected: not measured to its end. In a run of 400 steps the loss came to 0.68-0.75 and still fell;
the best constant prediction has 0.94 (target_variance). RankMe of the CLS tokens dropped from 11 to
3-5 and was 5-7 at the end. R2 on held-out objects was 0.847; untrained encoders have 0.811.
"""

import ml_collections

from configs import toys_ijepa
from socialjepa_jax.config import to_plain
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.mae import Mae


def get_config() -> ml_collections.ConfigDict:
    """The data, encoder, agents and schedule of toys_ijepa."""
    config = toys_ijepa.get_config()
    config.name = "Toys, MAE, 0 against 160 degrees"
    vit = ViTConfig(**config.objective.vit)
    objective = Mae(vit=vit, decoder_width=48, decoder_depth=2, decoder_heads=4)
    config.objective = to_plain(objective)
    return config
