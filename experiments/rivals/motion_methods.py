"""Methods on the moving world, with one encoder, the same batches and the same number of trials.

A batch is 128 pairs of successive frames. Methods of two views take the two frames of a pair as
their views, without crops or colours; methods on single images take the 256 frames as images. So
all see the same images in the same order, and differ in what they are told of them. The encoder is
the patch net of `motion_lejepa`, but for MAE and I-JEPA, which mask patches and need a ViT: 2
blocks of width 48 on 4 x 4 patches. LeJEPA is trained on both.

The loss of the two-view methods acts on a linear head of three numbers, as many as the world has
latents; SimCLR's acts on directions of four, which have three degrees of freedom. Published heads
are wider, and the encoder's output is kept, which is measured too.

Shape key: A agents, B pairs, P pairs of a pool, L latents, D features.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from experiments.rivals.methods import SPREAD
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.models.patch_net import PatchNetConfig
from socialjepa_jax.objectives.autoencoder import Autoencoder
from socialjepa_jax.objectives.barlow import Barlow
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Objective, Params, Wrapper
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.infonce import InfoNce
from socialjepa_jax.objectives.mae import Mae
from socialjepa_jax.objectives.pairs.frames import FramePairs
from socialjepa_jax.objectives.shared.embedding import update_running
from socialjepa_jax.objectives.simclr import SimClr
from socialjepa_jax.objectives.vicreg import VicReg
from socialjepa_jax.sharding import Reduce

CODE = 3  # latents of the world


@dataclass(frozen=True)
class BothFrames(Wrapper):
    """An objective on images, which takes both frames of every pair as images of one batch.

    Attributes:
        single: the objective.
    """

    single: Objective

    @property
    def wrapped(self) -> Objective:
        """The objective."""
        return self.single

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the loss of 2 B images; frame f of pair i has the index 2 i + f."""
        index = 2 * batch["index"]
        images = jnp.concatenate([batch["image"], batch["next"]])
        frames = {**batch, "image": images, "index": jnp.concatenate([index, index + 1])}
        return self.single.loss(params, aux, frames, key, hparams, reduce)


@dataclass(frozen=True)
class Labelled(FramePairs):
    """The reference with labels: the mean squared error of the states of both frames."""

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the error of states that `hparams['states']` f32[2, P, L] has by index."""
        images = jnp.concatenate([batch["image"], batch["next"]])
        states = jnp.concatenate(list(hparams["states"][:, batch["index"]]))
        h, _, used = self.embed(params, images, mean=reduce.mean)
        loss = reduce.mean(jnp.square(h - states).mean(-1))
        return loss, (update_running(aux, [{"encoder": used}]), {})


@dataclass(frozen=True)
class Method:
    """A method and its six tuning trials.

    Attributes:
        objective: the method.
        of_pairs: it is told which frames follow each other.
        rates: learning rates of the trials over that of the preset.
        knob: name in `hparams` of the weight that the trials vary; "": only the rate varies.
        values: of the knob; each is tried at every rate.
    """

    objective: Objective
    of_pairs: bool
    rates: tuple[float, ...]
    knob: str = ""
    values: tuple[float, ...] = ()

    @property
    def trials(self) -> list[dict[str, float]]:
        """The settings of every trial, by their name in `hparams`."""
        found = [{"learning_rate": rate} for rate in self.rates]
        if not self.knob:
            return found
        return [{**trial, self.knob: value} for trial in found for value in self.values]


def columns(trials: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Returns the settings of several agents as columns of `hparams`."""
    return {name: [trial[name] for trial in trials] for name in trials[0]}


NET = PatchNetConfig()
_VIT = dataclasses.replace(SPREAD, image_size=NET.image_size, channels=NET.channels)
_FRAMES = MultiCrop(2, 0, view_a=Augment(), view_b=Augment(), second="next")
_HEAD = {"encoder": NET, "latent": "mean", "projector_layers": 1, "views": _FRAMES}
_PIXELS = {"decoder_width": 48, "decoder_depth": 1, "decoder_heads": 4}
_TWO = (1.0, 1 / 3)
_SIX = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)

METHODS: dict[str, Method] = {
    "lejepa": Method(
        FramePairs(num_slices=64, weight=0.01, weight_rule="fixed"),
        True, _TWO, "lambda", (0.01, 0.003, 0.03),
    ),
    "vicreg": Method(
        VicReg(**_HEAD, projector_dim=CODE), True, _TWO, "lambda", (1.0, 5.0, 25.0)
    ),
    "barlow": Method(
        Barlow(**_HEAD, projector_dim=CODE), True, _TWO, "lambda", (0.0051, 0.05, 0.33)
    ),
    "infonce": Method(
        InfoNce(**_HEAD, projector_dim=CODE), True, _TWO, "sigma", (1.0, 0.5, 2.0)
    ),
    "simclr": Method(
        SimClr(**_HEAD, projector_dim=CODE + 1), True, _TWO, "temperature", (0.1, 0.3, 1.0)
    ),
    "autoencoder": Method(
        BothFrames(Autoencoder(NET, "mean", decoder_patch=8, **_PIXELS)), False, _SIX
    ),
    "mae": Method(BothFrames(Mae(vit=_VIT, **_PIXELS)), False, _SIX),
    "ijepa": Method(
        BothFrames(
            IJepa(
                vit=_VIT, predictor="mlp_patch", mlp_width=256, target_norm="layernorm",
                latent_encoder="target",
            )
        ),
        False, _SIX,
    ),
    "labels": Method(Labelled(), False, _SIX),
    "lejepa_vit": Method(
        FramePairs(encoder=_VIT, latent="cls", num_slices=64, weight=0.01, weight_rule="fixed"),
        True, _TWO, "lambda", (0.01, 0.003, 0.03),
    ),
}  # fmt: skip
REFERENCE = "labels"
