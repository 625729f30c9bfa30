"""DINOv2: what it adds to the losses of DINO and iBOT (Oquab et al., 2024).

"DINOv2: Learning Robust Visual Features without Supervision" (arXiv:2304.07193). The published code
is github.com/facebookresearch/dinov2. Its loss of the CLS token is `dino.cross_view_loss`, its
patch loss has the value of `ibot.patch_loss`, and its patch centre is `dino.update_centre` with the
mask.

Shape key: B images of this shard, N images of all shards, D features, C crops, G global crops,
P patches, K outputs.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax import optim
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import InputError, check_inside, check_non_negative, check_one_of
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.base import Aux, Metrics, Params, PyTree
from socialjepa_jax.objectives.ibot import IBot, Outputs, block_mask
from socialjepa_jax.objectives.shared.crops import byol_views
from socialjepa_jax.objectives.shared.crossentropy import HIGHEST, own_part, unit_rows
from socialjepa_jax.objectives.shared.embedding import Embedding
from socialjepa_jax.objectives.swav import sinkhorn
from socialjepa_jax.sharding import ONE_DEVICE, Reduce

TINY = 1e-37  # a squared distance above which the square root has a finite gradient


def koleo(z_BD: jax.Array, *, eps: float = 1e-8, reduce: Reduce | None = None) -> jax.Array:
    """Returns -mean log(distance to the nearest neighbour + eps) of unit vectors.

    The Kozachenko-Leonenko estimator of entropy (Sablayrolles et al., 2019, "Spreading vectors for
    similarity search", section 3.2), which spreads vectors evenly over the sphere. Neighbours are
    those of the same device, as in the published code, so the term is stronger with more images on
    a device. Which vector is nearest has no gradient; both ends of the distance have. As published,
    `eps` is also added to every entry of the difference. DINOv2 applies this to the student's CLS
    token after the final norm, before the head, to each global crop on its own, and sums over crops
    with the weight 0.1.

    A value near -log(eps) is that of equal vectors: 17.4 for D = 3, 15.4 for D = 384. In half
    precision 1e-8 is 0 and the value infinite; here all is in float32.

    Args:
        z_BD: vectors of any float type and any length, at least two on a device; they are
            normalised here. Zero vectors are allowed.
        eps: see above.
        reduce: averages over devices; None leaves each its own value.

    Returns:
        f32[].
    """
    u_BD = unit_rows(z_BD)
    fixed_BD = jax.lax.stop_gradient(u_BD)
    cosine_BB = jnp.matmul(fixed_BD, fixed_BD.T, precision=HIGHEST)
    nearest_B = jnp.where(jnp.eye(len(u_BD), dtype=bool), -jnp.inf, cosine_BB).argmax(1)
    square_B = jnp.square(u_BD - u_BD[nearest_B] + eps).sum(-1)
    distance_B = jnp.sqrt(jnp.maximum(square_B, TINY))
    value = -jnp.log(distance_B + eps).mean()
    return value if reduce is None else reduce.mean(value[None])


def sinkhorn_targets(
    teacher_CBPK: jax.Array,
    mask_CBP: jax.Array,
    *,
    teacher_temperature: float | jax.Array,
    rounds: int = 3,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns targets at masked patches that use all outputs about equally, in place of a centre.

    `swav.sinkhorn` over the masked patches of all crops, images and devices, with the teacher's
    temperature as `eps` (the "sinkhorn_knopp" centring of the large published recipes). For the CLS
    token it is `swav.sinkhorn` on the rows of all global crops. `crossentropy.at_masked` and
    `crossentropy.between_crops` take them as targets.

    Args:
        teacher_CBPK: raw logits, of any float type.
        mask_CBP: bool[C, B, P], True for masked patches.
        teacher_temperature: 0.04 to 0.07.
        rounds: see `swav.sinkhorn`.
        reduce: reductions over the global batch.

    Returns:
        f32[C, B, P, K], without gradient. Patches that are not masked get targets, too, but do not
        change those of others.
    """
    rows_SK = teacher_CBPK.reshape(-1, teacher_CBPK.shape[-1])
    counts_S, eps = mask_CBP.reshape(-1), teacher_temperature
    targets_SK = sinkhorn(rows_SK, eps=eps, rounds=rounds, reduce=reduce, counts_B=counts_S)
    return targets_SK.reshape(teacher_CBPK.shape)


@dataclass(frozen=True)
class DinoV2(IBot):
    """DINOv2: the losses of iBOT, KoLeo, and what its published code does otherwise.

    Half of the global crops of a batch are masked, by ratios that fill their range evenly: one is
    drawn in each of as many parts of the range as there are masked crops. (The published code does
    so on each device; here it is over the global batch.) The patches' centre is that of masked
    patches. Gradients are clipped by the norm of each sub-network: encoder and heads. While the
    last layer is frozen its learning rate is 0, but its moments move. LayerScale and drop path, of
    the published networks, are not in the encoders here, and without local crops the published sum
    over pairs is divided by one more than there are.

    Attributes:
        encoder, ..., patch_temperature: see `IBot`. The large published recipe has a head of its
            own for patches, `outputs=131072`, `projector_dim=384` and `centring="sinkhorn"`.
        kind: names this objective in a configuration.
        koleo_weight: weight of `koleo` on the latents of each global crop; of a device's images.
        centring: of the teacher's outputs: "centre" (a running mean) | "sinkhorn" (`swav.sinkhorn`
            with the teacher's temperature as its eps).
        layer_decay: factor on the learning rate from a block of the encoder to the one before it;
            0.9 in the short published recipe, 1.0 in the large one.
        patch_rate: factor on the learning rate of the patch embedding.
    """

    views: MultiCrop = byol_views((0.32, 1.0), 8, (0.05, 0.32))
    momentum_start: float = 0.992
    kind: str = "dinov2"
    outputs: int = 65536
    magnitude: bool = True
    koleo_weight: float = 0.1
    centring: str = "centre"
    layer_decay: float = 0.9
    patch_rate: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_non_negative(koleo_weight=self.koleo_weight, patch_rate=self.patch_rate)
        check_one_of(("centre", "sinkhorn"), centring=self.centring)
        if self.layer_decay != 1.0:
            check_inside(0.0, 1.0, layer_decay=self.layer_decay)
            if getattr(self.encoder, "scan_layers", False):
                raise InputError(f"layer_decay={self.layer_decay} needs scan_layers=False")

    def groups(self, params: Params) -> PyTree:
        """Sub-networks are clipped as one; rates fall with the depth; see `frozen`."""

        def group(path: optim.Path, _: jax.Array) -> optim.Group:
            scaled, first = optim.is_scaled(path), path[0]
            in_encoder = first in ("encoder", "mask_token")
            head = "patch_head" if first.startswith("patch_") else "head"
            last = first in ("last", "patch_last")
            return optim.Group(
                decays=scaled,
                trust_ratio=scaled,
                clip="encoder" if in_encoder else head,
                frozen_share=self.frozen if last else 0.0,
                keeps_moments=True,
                rate=self._rate(path) if in_encoder else 1.0,
            )

        return optim.group_by(params, group)

    def _rate(self, path: optim.Path) -> float:
        """Returns the factor on the learning rate of a parameter of the encoder."""
        assert isinstance(self.encoder, ViTConfig)
        name = path[1] if len(path) > 1 else path[0]
        last = self.encoder.depth + 1
        if name.startswith("block_"):
            layer = int(name.removeprefix("block_")) + 1
        else:
            layer = 0 if name in ("patch", "cls", "registers", "mask_token") else last
        return self.layer_decay ** (last - layer) * (self.patch_rate if name == "patch" else 1.0)

    @staticmethod
    def optimizer(batch_size: int) -> optim.AdamW:
        """Returns the optimiser of the short published recipe, 100 epochs of 1250 steps."""
        rate = 4e-3 * (batch_size / 1024) ** 0.5
        return optim.AdamW(
            learning_rate=rate,
            final_fraction=min(1.0, 1e-6 / rate),
            warmup_fraction=0.1,
            weight_decay=0.04,
            final_weight_decay=0.4,
            schedule="dino",
            beta2=0.999,
            clip=3.0,
        )

    def masks(self, key: jax.Array, index_B: jax.Array, reduce: Reduce) -> jax.Array:
        """Draws the masks bool[B, G, P]: which crops and which part of the range by the batch."""
        B, G = len(index_B), self.views.global_views
        shards = 1 if reduce.axis_name is None else jax.lax.axis_size(reduce.axis_name)
        order_key, key = jax.random.split(key)
        crops = B * shards * G
        order_NG = jax.random.permutation(order_key, crops).reshape(-1, G)
        masked, (low, high) = int(self.mask_share * crops), self.mask_ratio

        def one(index: jax.Array, crop: jax.Array, part: jax.Array) -> jax.Array:
            own = jax.random.fold_in(jax.random.fold_in(key, index), crop)
            within, blocks = jax.random.split(own)
            ratio = low + (high - low) * (part + jax.random.uniform(within)) / max(masked, 1)
            return self.block_mask(blocks, jnp.where(part < masked, ratio, 0.0))

        parts_BG = own_part(order_NG, reduce)
        return jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, 0))(index_B, jnp.arange(G), parts_BG)

    def block_mask(self, key: jax.Array, ratio: jax.Array) -> jax.Array:
        """Draws one mask bool[P], of blocks of 4 patches to half of the grid."""
        assert isinstance(self.encoder, ViTConfig)
        half = 0.5 * self.encoder.num_patches
        return block_mask(key, self.encoder.grid, ratio, least_area=4, greatest_area=half)

    def targets(
        self,
        teacher: Outputs,
        mask_GBP: jax.Array,
        aux: Aux,
        temperatures: tuple[jax.Array, jax.Array],
        reduce: Reduce,
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the probabilities f32[G, B, K] and f32[G, B, P, K]; see `centring`."""
        if self.centring == "centre":
            return super().targets(teacher, mask_GBP, aux, temperatures, reduce)
        cls = teacher.cls_GBK
        rows = cls.reshape(-1, cls.shape[-1])
        assigned = sinkhorn(rows, eps=temperatures[0], reduce=reduce).reshape(cls.shape)
        patches = sinkhorn_targets(
            teacher.patches_GBPK, mask_GBP, teacher_temperature=temperatures[1], reduce=reduce
        )
        return assigned, patches

    def extra(self, embedding: Embedding, reduce: Reduce) -> tuple[jax.Array, Metrics]:
        """Returns the weighted sum of KoLeo over the student's global crops."""
        latent_BGD = embedding.latents[self.latent]
        spread = sum(
            (koleo(latent_BGD[:, g], reduce=reduce) for g in range(latent_BGD.shape[1])),
            start=jnp.zeros(()),
        )
        return self.koleo_weight * spread, {"koleo": spread}

    def centred(self, aux: Aux, teacher: Outputs, mask_GBP: jax.Array, reduce: Reduce) -> Aux:
        """Returns `aux` with the centres moved by this step's logits, of masked patches."""
        return self._move_centres(aux, teacher, mask_GBP, reduce)
