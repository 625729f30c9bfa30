"""Every objective on the toy world of `toys_ijepa`, with the same encoder and optimiser.

The encoder is a ViT of 2 blocks and width 48, on 36 patches. Smaller than published are the heads
(256 wide), the outputs (256 for the DINO family, 64 prototypes) and the number of local views
(two); the predictors of I-JEPA and Masked LeJEPA are those of `toys_ijepa`. All else is the
objective's default.

SwAV, DINO, iBOT and DINOv2 learn from their own outputs, and so at first from whatever varies in
the latents of an untrained encoder. Pictures of this world differ from each other less than jitter
of brightness makes crops of one picture differ: under 5 % of the variance of those latents over
crops is that between pictures, and over 80 % without jitter. These four therefore have plain
crops; with jitter SwAV and DINO stayed within 5 % of a uniform answer, whatever the optimiser.

Their encoders, and those of I-JEPA, MAE and the autoencoder, begin with kernels of 0.08, which at
this width is what the usual 0.02 is at that of ViT-B: latents of untrained encoders then have a
RankMe of 12 instead of 8. With 0.02, I-JEPA, MAE and the autoencoder end below 4 in these steps.
Those whose loss spreads pictures or features keep 0.02.

Three run for twice the steps of the others. The temperature of iBOT's and DINOv2's teachers rises
to 0.07, at which outputs sharpen more slowly than at DINO's 0.04; MoCo v3 has a slow teacher and a
patch embedding that stays as drawn.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from configs import toys_ijepa, toys_lejepa
from socialjepa_jax.config import Agents, Experiment, from_config_dict
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.colour import Colour
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.models.vit import SIZES, ViTConfig
from socialjepa_jax.objectives.autoencoder import Autoencoder
from socialjepa_jax.objectives.barlow import Barlow
from socialjepa_jax.objectives.base import Objective
from socialjepa_jax.objectives.dino import Dino
from socialjepa_jax.objectives.dinov2 import DinoV2
from socialjepa_jax.objectives.ibot import IBot
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.infonce import InfoNce
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.objectives.mae import Mae
from socialjepa_jax.objectives.masked_lejepa import MaskedLeJepa
from socialjepa_jax.objectives.moco import MoCoV3
from socialjepa_jax.objectives.simclr import SimClr
from socialjepa_jax.objectives.swav import SwAV
from socialjepa_jax.objectives.vicreg import VicReg

LOCAL_VIEWS, OUTPUTS, PROTOTYPES = 2, 256, 64
CAMERAS = 2
PIXELS = "pixel PCA"  # the control without an encoder, where methods are named

_TOYS = from_config_dict(toys_ijepa.get_config())
VIT = ViTConfig(image_size=48, patch_size=8, channels=1, width=48, depth=2, heads=3)
_IJEPA = _TOYS.objective
assert isinstance(_IJEPA, IJepa)
_CROPS = toys_lejepa.views(toys_lejepa.GREY, flip=True, small=LOCAL_VIEWS)
_PAIR = dataclasses.replace(_CROPS, local_views=0)
_PLAIN = toys_lejepa.views(Colour(), flip=True, small=LOCAL_VIEWS)
SPREAD = dataclasses.replace(VIT, init_std=0.02 * (SIZES["B"]["width"] / VIT.width) ** 0.5)


@dataclass(frozen=True)
class Method:
    """An objective and how far its loss is from one that has learnt nothing.

    Attributes:
        objective: with the encoder `VIT`, or `SPREAD`.
        chance: metric -> its value for a uniform answer; a name instead of a number is the metric
            in which the objective states it. Empty: the loss has no such value.
        crops: the objective makes its own views, and the run's augmentation is off.
        times: its steps over those of the others.
    """

    objective: Objective
    chance: Mapping[str, float | str] = dataclasses.field(default_factory=dict)
    crops: bool = True
    times: int = 1


def _head(views: MultiCrop, **fields: Any) -> dict[str, Any]:
    return {"encoder": VIT, "views": views, "projector_width": 256, **fields}


_OWN = {"encoder": SPREAD}
_MANY = {"outputs": OUTPUTS, "projector_dim": 64, **_OWN}
_UNIFORM = float(np.log(OUTPUTS))
_BOTH = {"cls": _UNIFORM, "patch": _UNIFORM}
_PIXELS = {"decoder_width": 48, "decoder_depth": 2, "decoder_heads": 4}

METHODS: dict[str, Method] = {
    "ijepa": Method(dataclasses.replace(_IJEPA, vit=SPREAD), crops=False),
    "lejepa": Method(LeJepa(**_head(_CROPS, projector_dim=32))),
    "masked_lejepa": Method(
        MaskedLeJepa(vit=VIT, predictor="mlp_patch", mlp_width=256), crops=False
    ),
    "mae": Method(Mae(vit=SPREAD, **_PIXELS), crops=False),
    "autoencoder": Method(Autoencoder(SPREAD, decoder_patch=8, **_PIXELS), crops=False),
    "simclr": Method(SimClr(**_head(_PAIR)), {"loss": "chance"}),
    "moco": Method(MoCoV3(**_head(_PAIR, predictor_width=256)), {"loss": "chance"}, times=2),
    "infonce": Method(InfoNce(**_head(_PAIR))),
    "barlow": Method(Barlow(**_head(_PAIR, projector_dim=256))),
    "vicreg": Method(VicReg(**_head(_PAIR))),
    "swav": Method(
        SwAV(**_head(_PLAIN, prototypes=PROTOTYPES, **_OWN)), {"loss": float(np.log(PROTOTYPES))}
    ),
    "dino": Method(Dino(**_head(_PLAIN, **_MANY)), {"loss": _UNIFORM}),
    "ibot": Method(IBot(**_head(_PLAIN, **_MANY)), _BOTH, times=2),
    "dinov2": Method(DinoV2(**_head(_PLAIN, **_MANY)), _BOTH, times=2),
}


def experiment(name: str, steps: int, seeds: int = 3, **data: Any) -> Experiment:
    """Returns a run of one method: `seeds` agents on each of both cameras, in one program.

    Agent k of the first camera and agent seeds + k of the second make pair k. All agents have
    initial parameters and batches of their own.

    Args:
        name: of `METHODS`.
        steps: updates, a multiple of those of a call.
        seeds: agents of a camera.
        **data: fields of the toy world that differ.
    """
    method, agents = METHODS[name], CAMERAS * seeds
    cameras = tuple(k // seeds for k in range(agents))
    run = dataclasses.replace(
        _TOYS.run, steps=steps, log_every=steps, eval_every=steps, save_every=steps
    )
    return dataclasses.replace(
        _TOYS,
        name=f"Toys, {name}",
        data=dataclasses.replace(_TOYS.data, **data),
        objective=method.objective,
        augment=Augment() if method.crops else _TOYS.augment,
        agents=Agents(cameras, tuple(range(agents))),
        run=run,
    )
