"""The methods of the comparison tables, each with six tuning trials.

The methods are those of `methods` with their sizes; all see the same number of images. The grid of
a method is two learning rates times three values of its own weight or temperature, or six learning
rates where it has none; the first trial is the published setting. Beside them stand three
references: I-JEPA on images with jitter of brightness and contrast, VICReg whose two views are the
same image with other patches hidden, and an encoder that is trained with labels.

Shape key: B batch, H height, W width, C channels, N images, K classes, P patches.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax

from configs import toys_lejepa
from experiments.rivals.methods import METHODS, VIT
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Objective, Params, Wrapper
from socialjepa_jax.objectives.shared.embedding import JointEmbedding, update_running
from socialjepa_jax.objectives.vicreg import VicReg
from socialjepa_jax.sharding import Reduce

CLASSES = 5  # of the toys
HIDDEN = 0.5  # share of the patches that a masked view does not show

_CROPS = Augment(crop_scale=(0.5, 1.0), flip=True)
_JITTER = dataclasses.replace(_CROPS, colours=toys_lejepa.GREY)
_PAIR = MultiCrop(2, 0, view_a=Augment(), view_b=Augment(), second="next")
_SIX = (1.0, 3.0, 0.5, 0.25, 0.1, 0.03)
_TWO = (1.0, 1 / 3)


@dataclass(frozen=True)
class MaskedPair(Wrapper):
    """An objective on two views, which are the same image with other patches hidden.

    Attributes:
        pair: the objective; its views are the frames of a pair.
        patch_size: height and width of a patch, pixels.
        hidden: share of the patches that a view does not show.
    """

    pair: Objective
    patch_size: int = VIT.patch_size
    hidden: float = HIDDEN

    @property
    def wrapped(self) -> Objective:
        """The objective."""
        return self.pair

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the loss of two masked views; hidden pixels have the mean of all images."""
        keys_B = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, batch["index"])
        images_BHWC = batch["image"]

        def shown(view: jax.Array) -> jax.Array:
            each_B = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys_B, view)
            return jax.vmap(lambda key: self._shown(key, images_BHWC))(each_B)

        shown_2BHW = jax.vmap(shown)(jnp.arange(2))
        views = images_BHWC[None] * shown_2BHW[..., None]
        masked = {**batch, "image": views[0], "next": views[1]}
        return self.pair.loss(params, aux, masked, key, hparams, reduce)

    def _shown(self, key: jax.Array, images_BHWC: jax.Array) -> jax.Array:
        """Draws the patches that a view shows: f32[H, W]."""
        rows, columns = (side // self.patch_size for side in images_BHWC.shape[1:3])
        order_P = jax.random.permutation(key, rows * columns)
        shown = (order_P >= round(self.hidden * rows * columns)).reshape(rows, columns)
        block = jnp.ones((self.patch_size, self.patch_size))
        return jnp.kron(shown.astype(jnp.float32), block)


@dataclass(frozen=True)
class Supervised(JointEmbedding):
    """The reference with labels: cross-entropy of a linear classifier on the latent."""

    kind: str = "supervised"

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the error of the classes that `hparams['labels']` f32[N] has by index."""
        embedding, used = self.embed(params, batch["image"], mean=reduce.mean)
        labels_B = hparams["labels"][batch["index"]].astype(jnp.int32)
        losses = optax.softmax_cross_entropy_with_integer_labels(embedding.projection, labels_B)
        return reduce.mean(losses), (update_running(aux, [used]), {})

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Returns the latents, normalised by the running statistics."""
        embedding, _ = self.embed(params, images, aux.get("statistics"))
        return {"latent": embedding.latents[self.latent]}


@dataclass(frozen=True)
class Entrant:
    """A method of the tables and its six tuning trials.

    Attributes:
        objective: the method.
        augment: of the run; methods that make their own views have none.
        rates: learning rates of the trials over that of the preset; the first is the preset's.
        knob: name in `hparams` of the weight or temperature that the trials vary; "": none.
        values: of the knob; the first is the published one.
    """

    objective: Objective
    augment: Augment = Augment()
    rates: tuple[float, ...] = _SIX
    knob: str = ""
    values: tuple[float, ...] = ()

    @property
    def trials(self) -> list[dict[str, float]]:
        """The settings of every trial by their name in `hparams`; the published one first."""
        found = [{"learning_rate": rate} for rate in self.rates]
        if not self.knob:
            return found
        return [{**trial, self.knob: value} for trial in found for value in self.values]


def _of(name: str, knob: str = "", values: tuple[float, ...] = ()) -> Entrant:
    method = METHODS[name]
    augment = Augment() if method.crops else _CROPS
    return Entrant(method.objective, augment, _TWO if knob else _SIX, knob, values)


_VICREG = METHODS["vicreg"].objective
assert isinstance(_VICREG, VicReg)
_MASKED = MaskedPair(dataclasses.replace(_VICREG, views=_PAIR))
_COVARIANCES = (1.0, 5.0, 25.0)  # weights of VICReg's covariance; those of its other terms are 25

REFERENCES: Mapping[str, Entrant] = {
    "ijepa_jitter": Entrant(METHODS["ijepa"].objective, _JITTER),
    "vicreg_masked": Entrant(_MASKED, rates=_TWO, knob="lambda", values=_COVARIANCES),
    "supervised": Entrant(
        Supervised(VIT, projector_layers=1, projector_dim=CLASSES), _CROPS
    ),
}  # fmt: skip

RIVALS: Mapping[str, Entrant] = {
    "ijepa": _of("ijepa"),
    "mae": _of("mae"),
    "simclr": _of("simclr", "temperature", (0.1, 0.3, 1.0)),
    "autoencoder": _of("autoencoder"),
    "dino": _of("dino"),
    "moco": _of("moco", "temperature", (0.2, 0.1, 0.5)),
    "ibot": _of("ibot"),
    "swav": _of("swav"),
    "barlow": _of("barlow", "lambda", (0.0051, 0.05, 0.33)),
    "dinov2": _of("dinov2"),
    "lejepa": _of("lejepa", "lambda", (0.05, 0.01, 0.2)),
    "vicreg": _of("vicreg", "lambda", _COVARIANCES),
}  # the paper's nine and the autoencoder, then LeJEPA and VICReg

ENTRANTS: Mapping[str, Entrant] = {**RIVALS, **REFERENCES}

COMPARED: Mapping[str, tuple[str, ...]] = {"smoke": ("ijepa",)} | dict.fromkeys(
    ("cpu", "gpu", "paper"), tuple(RIVALS)
)  # by scale, the methods of the tables that read the latents of `trained`
