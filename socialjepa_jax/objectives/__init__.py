"""Self-supervised objectives by their `kind` in configurations."""

from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.infonce import InfoNce
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.objectives.mae import Mae
from socialjepa_jax.objectives.masked_lejepa import MaskedLeJepa
from socialjepa_jax.objectives.pairs.frames import FramePairs
from socialjepa_jax.objectives.vicreg import VicReg

OBJECTIVES: dict[str, type] = {
    "ijepa": IJepa,
    "lejepa": LeJepa,
    "masked_lejepa": MaskedLeJepa,
    "vicreg": VicReg,
    "infonce": InfoNce,
    "mae": Mae,
    "frame_pairs": FramePairs,
}
