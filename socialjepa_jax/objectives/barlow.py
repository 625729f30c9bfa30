"""Barlow Twins: views agree feature by feature, without redundancy (Zbontar et al., 2021).

"Barlow Twins: Self-Supervised Learning via Redundancy Reduction" (arXiv:2103.03230). The published
code is github.com/facebookresearch/barlowtwins.

Shape key: B images of this shard, D features, P of the projection.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax import optim
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import check_non_negative, check_one_of, check_positive
from socialjepa_jax.models.projection import HeadStyle
from socialjepa_jax.objectives.base import HParams, Metrics, Params, PyTree
from socialjepa_jax.objectives.shared.crops import byol_views
from socialjepa_jax.objectives.shared.crossentropy import HIGHEST
from socialjepa_jax.objectives.shared.embedding import PairObjective
from socialjepa_jax.sharding import ONE_DEVICE, Reduce


def cross_correlation(
    z1_BD: jax.Array,
    z2_BD: jax.Array,
    *,
    eps: float = 1e-5,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns the correlations f32[D, D] of the features of two views (equation 2).

    Features are standardised over the global batch with the biased variance plus `eps`, as by a
    batch normalisation without scale and offset. The matrix is not symmetric.
    """
    u1_BD, u2_BD = (_standardised(z_BD, eps, reduce) for z_BD in (z1_BD, z2_BD))
    local_DD = jnp.matmul(u1_BD.T, u2_BD, precision=HIGHEST) / len(u1_BD)
    return reduce.mean(local_DD[None])


def cross_correlation_loss(
    z1_BD: jax.Array,
    z2_BD: jax.Array,
    *,
    off_diagonal: float | jax.Array = 0.0051,
    eps: float = 1e-5,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns sum_i (C_ii - 1)^2 + off_diagonal sum_{i != j} C_ij^2 (equation 1).

    C is `cross_correlation` over the global batch, and the gradient is exact. The published code
    sums C over devices outside of differentiation, so its gradient is this one over the number of
    devices. The layer-wise rate of LARS hides that for matrices; rates of biases and of batch
    normalisation, which are not adapted, were tuned with it. There is no factor of 1 / D, so the
    loss grows with the projector.

    A loss of D is that of uncorrelated views, and constant features also give D: their C is zero.
    A diagonal term near 0 with an off-diagonal term near D (D - 1) off_diagonal is one feature
    repeated.

    Args:
        z1_BD: projections of the first views, of any float type; they are not normalised by row.
        z2_BD: projections of the second views.
        off_diagonal: lambda, the weight of the redundancy; tuned for D = 8192.
        eps: added to the variances; with 0 constant features give NaN.
        reduce: reductions over the global batch.

    Returns:
        f32[].
    """
    on, off = _terms(cross_correlation(z1_BD, z2_BD, eps=eps, reduce=reduce))
    return on + off_diagonal * off


def _terms(correlation_DD: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns sum_i (C_ii - 1)^2 and sum_{i != j} C_ij^2."""
    eye_DD = jnp.eye(len(correlation_DD), dtype=bool)
    on = jnp.square(jnp.diagonal(correlation_DD) - 1.0).sum()
    return on, jnp.where(eye_DD, 0.0, jnp.square(correlation_DD)).sum()


def _standardised(z_BD: jax.Array, eps: float, reduce: Reduce) -> jax.Array:
    z_BD = z_BD.astype(jnp.float32)
    centred_BD = z_BD - reduce.mean(z_BD)[None]
    variance_D = reduce.mean(jnp.square(centred_BD))
    return centred_BD * jax.lax.rsqrt(variance_D + eps)[None]


@dataclass(frozen=True)
class Barlow(PairObjective):
    """Barlow Twins on two views, which are encoded and normalised each on its own.

    The projector is linear without bias, batch normalisation, ReLU, twice, then linear.

    Attributes:
        encoder, latent, projector_layers, projector_width, projector_dim, views, pack_views: see
            `JointEmbedding`.
        kind: names this objective in a configuration.
        off_diagonal: see `cross_correlation_loss`; tuned for 8192 features. For few features about
            1 / projector_dim is in use, of which there is no published study.
            `hparams['lambda']`, if present, takes precedence.
        bias_rate: factor on the learning rate of biases and of scales and offsets of
            normalisations; 0.024 (0.0048 over 0.2) in the published recipe with LARS.
    """

    projector_width: int = 8192
    projector_dim: int = 8192
    views: MultiCrop = byol_views((0.08, 1.0))
    kind: str = "barlow"
    off_diagonal: float = 0.0051
    bias_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(("barlow",), kind=self.kind)
        check_non_negative(off_diagonal=self.off_diagonal)
        check_positive(bias_rate=self.bias_rate)

    @property
    def style(self) -> HeadStyle:
        """Linear layers without bias."""
        return HeadStyle()

    @property
    def apart(self) -> bool:
        """The two views have batch statistics of their own."""
        return True

    def groups(self, params: Params) -> PyTree:
        """Biases and scales neither decay nor have a trust ratio, and have their own rate."""

        def group(path: optim.Path, _: jax.Array) -> optim.Group:
            scaled = optim.is_scaled(path)
            rate = 1.0 if scaled else self.bias_rate
            return optim.Group(decays=scaled, trust_ratio=scaled, rate=rate)

        return optim.group_by(params, group)

    @staticmethod
    def optimizer(batch_size: int) -> optim.Lars:
        """Returns the published optimiser, for 1000 epochs on ImageNet."""
        rate = 0.2 * batch_size / 256
        return optim.Lars(learning_rate=rate, warmup_fraction=0.01, final_fraction=1e-3)

    def loss_on(
        self, z_BVP: jax.Array, hparams: HParams, reduce: Reduce
    ) -> tuple[jax.Array, Metrics]:
        """Returns the loss of projections f32[B, 2, P], with its terms 'invariance', 'redundancy'.

        'redundancy' is the off-diagonal sum without its weight.
        """
        correlation = cross_correlation(z_BVP[:, 0], z_BVP[:, 1], reduce=reduce)
        on, off = _terms(correlation)
        loss = on + hparams.get("lambda", self.off_diagonal) * off
        return loss, {"invariance": on, "redundancy": off}
