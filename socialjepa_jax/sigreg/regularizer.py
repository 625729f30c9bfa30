"""SIGReg: the mean of a univariate statistic over random projections (LeJEPA, definition 2)."""

from typing import Protocol

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import InputError
from socialjepa_jax.sigreg.epps_pulley import epps_pulley


class Statistic(Protocol):
    """A goodness-of-fit statistic against N(0, 1): [..., N, M] -> [..., M]."""

    def __call__(self, u: jax.Array, *, axis_name: str | None = None) -> jax.Array:
        """Scores every slice; `axis_name` is the mesh axis over which samples are spread."""


def sigreg(
    z: jax.Array,
    directions: jax.Array,
    *,
    statistic: Statistic = epps_pulley,
    axis_name: str | None = None,
) -> jax.Array:
    """Mean statistic of embeddings against N(0, I) over one-dimensional projections.

    Definition 2 of LeJEPA. Leading axes of `z` (views, time steps) are scored one by one and
    averaged: the *per view* convention of algorithm 2. Merge them into the sample axis for the
    *flattened* convention. Its level differs, so loss weights do not carry over between the two.

    Args:
        z: [..., N, D] embeddings of any float dtype, cast to float32 before the projection.
        directions: f32[D, M] unit columns from `sample_directions`; the same on all shards.
        statistic: univariate statistic; `functools.partial` sets its options.
        axis_name: mesh axis over which the N samples are spread.

    Returns:
        f32[]: the mean over slices and leading axes. Divide by `Quadrature.null_level` for a
        number that is 1 on Gaussian embeddings.

    Raises:
        InputError: if the shapes of `z` and `directions` do not match.
    """
    if z.ndim < 2 or directions.ndim != 2 or z.shape[-1] != directions.shape[0]:
        raise InputError(
            f"z.shape={z.shape} and directions.shape={directions.shape} must be "
            "[..., N, D] and [D, M]"
        )
    u = jnp.matmul(
        z.astype(jnp.float32),
        directions.astype(jnp.float32),
        precision=jax.lax.Precision.HIGHEST,
    )
    return jnp.mean(statistic(u, axis_name=axis_name))
