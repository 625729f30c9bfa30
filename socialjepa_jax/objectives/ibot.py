"""iBOT: the student also predicts the teacher's output at masked patches (Zhou et al., 2022).

"iBOT: Image BERT Pre-Training with Online Tokenizer" (arXiv:2111.07832). The published code is
github.com/bytedance/ibot.

Shape key: B images of this shard, C crops, G global crops, V crops of the student, P patches,
K outputs, D features, R rows and L columns of the grid.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp

from socialjepa_jax import optim
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import InputError, check_in_range, check_non_negative, check_positive
from socialjepa_jax.models.batchnorm import local_mean
from socialjepa_jax.models.functional import Functional, functional
from socialjepa_jax.models.projection import MaskedViT
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.dino import Dino, teacher_targets, update_centre
from socialjepa_jax.objectives.shared.crops import byol_views
from socialjepa_jax.objectives.shared.crossentropy import at_masked, between_crops, usage
from socialjepa_jax.objectives.shared.embedding import Embedding
from socialjepa_jax.sharding import ONE_DEVICE, Reduce

State = tuple[jax.Array, ...]  # the mask, blocks drawn, and how many of the last were not taken

ASPECT = 0.3  # least height over width of a block; the greatest is its inverse
TRIES = 10  # draws of a block before the mask is taken as it is
ROUNDING = 1e-3  # patches; lets a ratio of k / P mask k patches whatever its last digits


def patch_loss(
    student_CBPK: jax.Array,
    teacher_CBPK: jax.Array,
    mask_CBP: jax.Array,
    centre_K: jax.Array,
    *,
    teacher_temperature: float | jax.Array,
    student_temperature: float | jax.Array = 0.1,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns the cross-entropy of student and teacher at masked patches of the same crop.

    The masked-image term of section 3. An image's sum is divided by max(1, masked patches), and the
    mean is over all images and crops, including those without a mask, which add 0. DINOv2's patch
    loss has the same value. The teacher has no gradient. `centre_K` is that of the steps before:
    `dino.update_centre` with all the teacher's patches follows the loss.

    A loss that stays at ln K (9.011 for 8192) times the share of images with a mask is that of a
    uniform teacher; one near 0 is that of one output for all patches.

    Args:
        student_CBPK: logits at the patches of the masked global crops, of any float type.
        teacher_CBPK: raw logits at the patches of the same crops without a mask.
        mask_CBP: bool[C, B, P], True for patches that the student does not see.
        centre_K: f32[K], running mean of the teacher's patch logits; not that of the CLS token.
        teacher_temperature: 0.04 to 0.07 over 30 epochs.
        student_temperature: 0.1.
        reduce: reductions over the global batch.

    Returns:
        f32[].
    """
    targets_CBPK = teacher_targets(teacher_CBPK, centre_K, teacher_temperature)
    logits_CBPK = student_CBPK.astype(jnp.float32) / student_temperature
    return at_masked(targets_CBPK, logits_CBPK, mask_CBP, reduce)


def block_mask(
    key: jax.Array,
    grid: tuple[int, int],
    ratio: float | jax.Array,
    *,
    least_area: float | jax.Array | None = None,
    greatest_area: float | jax.Array = math.inf,
) -> jax.Array:
    """Draws a mask of overlapping blocks (Bao et al., 2022, algorithm 1, as used by iBOT).

    Blocks are added while ratio x P patches are not reached: area uniform between `least_area` and
    what remains (in either order), height over width log-uniform in [0.3, 1 / 0.3], each side
    shorter than the grid's, position uniform. A block is taken if it adds at least one patch and no
    more than remain; after ten in a row that are not, the mask is taken as it is. So the number of
    masked patches varies and is at most ratio x P: on 14 x 14 at 0.3 the mean is 57.2 of 58.8.

    It can be compiled and mapped, and ends after at most 10 P draws.

    Args:
        key: one mask's own key.
        grid: rows and columns of patches.
        ratio: share of masked patches, may be traced; iBOT draws 0 for half of the crops and
            otherwise a uniform one in [0.1, 0.5].
        least_area: patches; (min(grid) // 3)^2 by default. DINOv2: 4.
        greatest_area: patches that a block may have and add. DINOv2: half of the grid.

    Returns:
        bool[P], True for masked patches, in raster order.
    """
    rows, columns = grid
    low = (min(grid) // 3) ** 2 if least_area is None else least_area
    target = ratio * (rows * columns) + ROUNDING
    # Arrays made from the arguments, so that inside `shard_map` they vary as what is drawn does.
    like = jax.random.uniform(key, grid) * target
    state = jnp.zeros_like(like, bool), *(jnp.zeros_like(like[0, 0], jnp.int32) for _ in range(2))

    def unfinished(state: State) -> jax.Array:
        mask_RL, _, failures = state
        return (target - mask_RL.sum() >= 1.0) & (failures < TRIES)

    def draw(state: State) -> State:
        mask_RL, draws, failures = state
        room = jnp.minimum(target - mask_RL.sum(), greatest_area)
        u = jax.random.uniform(jax.random.fold_in(key, draws), (4,))
        block_RL, fits = _block(u, grid, low, room)
        added = (block_RL & ~mask_RL).sum()
        taken = fits & (added >= 1) & (added <= room)
        return mask_RL | (block_RL & taken), draws + 1, jnp.where(taken, 0, failures + 1)

    return jax.lax.while_loop(unfinished, draw, state)[0].reshape(-1)


def _block(
    u: jax.Array, grid: tuple[int, int], low: float | jax.Array, high: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns a block bool[R, L] for u f32[4] uniform in [0, 1), and whether its sides fit."""
    area = low + u[0] * (high - low)
    aspect = jnp.exp((2.0 * u[1] - 1.0) * math.log(1.0 / ASPECT))
    sides = jnp.round(jnp.sqrt(jnp.stack([area * aspect, area / aspect])))
    free = jnp.asarray(grid) - sides
    first = jnp.minimum(jnp.floor(u[2:] * (free + 1.0)), free)
    inside = [
        (jnp.arange(length) >= first[i]) & (jnp.arange(length) < first[i] + sides[i])
        for i, length in enumerate(grid)
    ]
    return inside[0][:, None] & inside[1][None], jnp.all(free > 0.0)


class Outputs(NamedTuple):
    """Logits of a network on global crops, and the embedding behind them.

    Attributes:
        cls_GBK: of the latents.
        patches_GBPK: of the patch tokens.
        embedding: latents and bottlenecks, arrays [B, G, features].
    """

    cls_GBK: jax.Array
    patches_GBPK: jax.Array
    embedding: Embedding


@dataclass(frozen=True)
class IBot(Dino):
    """iBOT: DINO, and the teacher's output at patches that the student does not see.

    The student's global crops are masked, also for DINO's loss; the teacher's are not, nor are
    local crops, whose patches have no loss. A learnt token takes the place of a masked patch before
    its position is added.

    Attributes:
        encoder, latent, projector_layers, projector_width, projector_dim, views: see
            `JointEmbedding`; the encoder is a ViT.
        momentum_start, ..., centre_momentum: see `Dino`; the published small ViT has
            `magnitude=True`.
        kind: names this objective in a configuration.
        shared_head: patches have the head of the latent, as in the published recipe.
        cls_weight, patch_weight: weights of the two losses.
        mask_share: share of crops with a mask; the ratio of the others is 0.
        mask_ratio: range of the ratio of masked patches, drawn uniformly for each crop.
        patch_temperature_start, patch_temperature: the teacher's at patches, as
            `teacher_temperature_start` and `teacher_temperature`.
    """

    views: MultiCrop = byol_views((0.25, 1.0), 10, (0.05, 0.25))
    kind: str = "ibot"
    outputs: int = 8192
    teacher_temperature: float = 0.07
    shared_head: bool = True
    cls_weight: float = 1.0
    patch_weight: float = 1.0
    mask_share: float = 0.5
    mask_ratio: tuple[float, float] = (0.1, 0.5)
    patch_temperature_start: float = 0.04
    patch_temperature: float = 0.07

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.encoder, ViTConfig):
            raise InputError(f"kind={self.kind!r} needs a ViT as the encoder: it masks patches")
        if self.pack_views:
            raise InputError(f"pack_views=True does not go with kind={self.kind!r}")
        check_non_negative(cls_weight=self.cls_weight, patch_weight=self.patch_weight)
        check_in_range(0.0, 1.0, mask_share=self.mask_share)
        low, high = self.mask_ratio
        if not 0.0 <= low <= high <= 1.0:
            raise InputError(f"mask_ratio={self.mask_ratio} must be 0 <= low <= high <= 1")
        check_positive(
            patch_temperature_start=self.patch_temperature_start,
            patch_temperature=self.patch_temperature,
        )

    @property
    def student_only(self) -> tuple[str, ...]:
        """The teacher sees all patches."""
        return ("mask_token",)

    @cached_property
    def masked(self) -> Functional:
        """The encoder with masked patches as pure functions, on a ViT's parameters."""
        vit = self.encoder
        assert isinstance(vit, ViTConfig)
        return functional(lambda rngs: MaskedViT(vit, rngs))

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Adds {'mask_token'}, the patches' head if it is their own, and {'patch_centre'}."""
        params, aux = super().init(key)
        params = {**params, "mask_token": jnp.zeros(self.encoder.width)}
        if not self.shared_head:
            params["patch_projector"] = self.projector.init(jax.random.fold_in(key, 3))
            params["patch_last"] = self.last.init(jax.random.fold_in(key, 4))
        return params, {**self.with_teacher(params, aux), "patch_centre": jnp.zeros(self.outputs)}

    def masks(self, key: jax.Array, index_B: jax.Array, reduce: Reduce) -> jax.Array:
        """Draws the masks bool[B, G, P] of the global crops, each from its image's own key."""
        low, high = self.mask_ratio

        def one(index: jax.Array, crop: jax.Array) -> jax.Array:
            own = jax.random.fold_in(jax.random.fold_in(key, index), crop)
            which, ratio, blocks = jax.random.split(own, 3)
            share = jax.random.uniform(ratio, minval=low, maxval=high)
            share = jnp.where(jax.random.uniform(which) < self.mask_share, share, 0.0)
            return self.block_mask(blocks, share)

        crops_G = jnp.arange(self.views.global_views)
        return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(index_B, crops_G)

    def block_mask(self, key: jax.Array, ratio: jax.Array) -> jax.Array:
        """Draws one mask bool[P]; see `block_mask`."""
        assert isinstance(self.encoder, ViTConfig)
        return block_mask(key, self.encoder.grid, ratio)

    def outputs_of(
        self, params: Params, images_BGHWC: jax.Array, mask_BGP: jax.Array | None, token: jax.Array
    ) -> Outputs:
        """Applies encoder and heads to the global crops, all patches or those outside a mask."""
        lead = images_BGHWC.shape[:2]
        images = images_BGHWC.reshape(-1, *images_BGHWC.shape[2:])
        mask = None if mask_BGP is None else mask_BGP.reshape(len(images), -1)
        out = self.masked.apply(params["encoder"], images, mask, token)
        tokens = out.pop("tokens")
        latents = {kind: x.astype(jnp.float32) for kind, x in out.items()}
        embedding, _ = self._project(params, latents, None, local_mean)
        projector, last = ("projector", "last") if self.shared_head else (
            "patch_projector", "patch_last",
        )  # fmt: skip
        flat = tokens.reshape(-1, tokens.shape[-1])
        z, _ = self.projector.apply(params[projector], flat)
        patches = self.last.apply(params[last], z).reshape(*lead, tokens.shape[1], -1)
        embedding = jax.tree.map(lambda x: x.reshape(*lead, -1), embedding)
        cls_BGK = self.last.apply(params["last"], embedding.projection)
        return Outputs(cls_BGK.swapaxes(0, 1), patches.swapaxes(0, 1), embedding)

    def patch_temperature_at(self, batch: Batch, hparams: HParams) -> jax.Array:
        """Returns the teacher's temperature at patches at this step: f32[]."""
        warmup = self.temperature_warmup * hparams["total_steps"]
        start, end = self.patch_temperature_start, self.patch_temperature
        return optim.linear(start, end, warmup)(batch["step"])

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes both losses on crops and masks drawn from `key`; see `Objective.loss`."""
        key_views, key_masks = jax.random.split(key)
        views = self.views(batch, key_views)
        mask_BGP = self.masks(key_masks, batch["index"], reduce)
        token = params["mask_token"]
        student = self.outputs_of(params, views[0], mask_BGP, token)
        teacher = jax.lax.stop_gradient(self.outputs_of(aux["teacher"], views[0], None, token))
        cls_VBK = student.cls_GBK
        if len(views) > 1:
            local, _ = self.embed_views(params, views[1:], reduce)
            local_LBK = self.last.apply(params["last"], local.projection.swapaxes(0, 1))
            cls_VBK = jnp.concatenate([cls_VBK, local_LBK])
        mask_GBP = mask_BGP.swapaxes(0, 1)
        temperatures = self.temperature(batch, hparams), self.patch_temperature_at(batch, hparams)
        cls, patches = self.targets(teacher, mask_GBP, aux, temperatures, reduce)
        own, sharpened = range(len(cls)), self.student_temperature
        cls_loss = between_crops(cls, cls_VBK / sharpened, own, reduce)
        patch_loss = at_masked(patches, student.patches_GBPK / sharpened, mask_GBP, reduce)
        extra, metrics = self.extra(student.embedding, reduce)
        metrics |= {"cls": cls_loss, "patch": patch_loss}
        metrics |= {"mask_ratio": reduce.mean(mask_BGP.mean((1, 2)))}
        metrics |= usage(cls.swapaxes(0, 1), reduce) | self.monitors(student.embedding, reduce)
        loss = self.cls_weight * cls_loss + self.patch_weight * patch_loss + extra
        aux = self.centred(aux, teacher, mask_GBP, reduce)
        return loss, (aux, jax.lax.stop_gradient(metrics))

    def targets(
        self,
        teacher: Outputs,
        mask_GBP: jax.Array,
        aux: Aux,
        temperatures: tuple[jax.Array, jax.Array],
        reduce: Reduce,
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the probabilities f32[G, B, K] and f32[G, B, P, K] that the student learns."""
        cls = teacher_targets(teacher.cls_GBK, aux["centre"], temperatures[0])
        patches = teacher_targets(teacher.patches_GBPK, aux["patch_centre"], temperatures[1])
        return cls, patches

    def extra(self, embedding: Embedding, reduce: Reduce) -> tuple[jax.Array | float, Metrics]:
        """Returns a further term of the loss on the student's global crops, and its metrics."""
        return 0.0, {}

    def centred(self, aux: Aux, teacher: Outputs, mask_GBP: jax.Array, reduce: Reduce) -> Aux:
        """Returns `aux` with the centres moved by this step's logits, of all patches."""
        return self._move_centres(aux, teacher, None, reduce)

    def _move_centres(
        self, aux: Aux, teacher: Outputs, mask_GBP: jax.Array | None, reduce: Reduce
    ) -> Aux:
        m = self.centre_momentum
        centre = update_centre(aux["centre"], teacher.cls_GBK, momentum=m, reduce=reduce)
        patches = update_centre(
            aux["patch_centre"], teacher.patches_GBPK, momentum=m, mask=mask_GBP, reduce=reduce
        )
        return {**aux, "centre": centre, "patch_centre": patches}
