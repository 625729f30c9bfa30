"""Self-supervised objectives by their `kind` in configurations."""

from socialjepa_jax.objectives.autoencoder import Autoencoder
from socialjepa_jax.objectives.barlow import Barlow
from socialjepa_jax.objectives.coupled import Crossed, Migration, Mutual, MutualClasses
from socialjepa_jax.objectives.dino import Dino
from socialjepa_jax.objectives.dinov2 import DinoV2
from socialjepa_jax.objectives.ibot import IBot
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.infonce import InfoNce
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.objectives.mae import Mae
from socialjepa_jax.objectives.masked_lejepa import MaskedLeJepa
from socialjepa_jax.objectives.moco import MoCoV3
from socialjepa_jax.objectives.pairs.frames import FramePairs
from socialjepa_jax.objectives.simclr import SimClr
from socialjepa_jax.objectives.swav import SwAV
from socialjepa_jax.objectives.vicreg import VicReg

OBJECTIVES: dict[str, type] = {
    "ijepa": IJepa,
    "lejepa": LeJepa,
    "masked_lejepa": MaskedLeJepa,
    "vicreg": VicReg,
    "infonce": InfoNce,
    "simclr": SimClr,
    "moco": MoCoV3,
    "barlow": Barlow,
    "swav": SwAV,
    "dino": Dino,
    "ibot": IBot,
    "dinov2": DinoV2,
    "mae": Mae,
    "autoencoder": Autoencoder,
    "frame_pairs": FramePairs,
    "migration": Migration,
    "mutual": Mutual,
    "mutual_classes": MutualClasses,
    "crossed": Crossed,
}
