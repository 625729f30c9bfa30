"""Nonlinear mixings x = g(z), with exact inverses and log-determinants.

The four mixings of "When Does LeJEPA Learn a World Model?" (appendix "Nonlinear Mixing Functions"),
in the coordinates of its code if the two differ, and the identity. `init` draws a mixing's weights.

Shape key: N samples, D features.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import check_one_of
from socialjepa_jax.models.coupling import Coupling, CouplingConfig, matched_encoder
from socialjepa_jax.models.functional import Functional, Params, functional


class Mixing(Protocol):
    """A bijection of R^D."""

    @property
    def dim(self) -> int:
        """Features of z and of x."""
        ...

    def init(self, key: jax.Array) -> Params:
        """Draws random weights; an empty dictionary if the mixing has none."""
        ...

    def forward(self, params: Params, z_ND: jax.Array) -> jax.Array:
        """Returns g(z): f32[N, D]."""
        ...

    def inverse(self, params: Params, x_ND: jax.Array) -> jax.Array:
        """Returns g^-1(x): f32[N, D]."""
        ...

    def log_det(self, params: Params, z_ND: jax.Array) -> jax.Array:
        """Returns log |det J_g(z)|: f32[N]."""
        ...


@dataclass(frozen=True)
class _VolumePreserving:
    """Base of the mixings without weights; their Jacobians have determinant one."""

    dim: int = 2

    def init(self, key: jax.Array) -> Params:
        """Returns an empty dictionary: there are no weights."""
        return {}

    def log_det(self, params: Params, z_ND: jax.Array) -> jax.Array:
        """Returns zeros f32[N]."""
        return jnp.zeros(z_ND.shape[0], z_ND.dtype)


@dataclass(frozen=True)
class _Plane(_VolumePreserving):
    """Base of the mixings of the plane, with coordinates z0 and z1."""

    def __post_init__(self) -> None:
        check_one_of((2,), dim=self.dim)


@dataclass(frozen=True)
class Identity(_VolumePreserving):
    """g(z) = z in any dimension, the control that needs no inversion."""

    def forward(self, params: Params, z_ND: jax.Array) -> jax.Array:
        """Returns z."""
        return z_ND

    def inverse(self, params: Params, x_ND: jax.Array) -> jax.Array:
        """Returns x."""
        return x_ND


def _rotate(z_ND: jax.Array, turn: float) -> jax.Array:
    """Rotates each point by `turn` times its distance from the origin."""
    angle_N = turn * jnp.linalg.norm(z_ND, axis=1)
    cos_N, sin_N = jnp.cos(angle_N), jnp.sin(angle_N)
    first_N, second_N = z_ND[:, 0], z_ND[:, 1]
    return jnp.stack([cos_N * first_N - sin_N * second_N, sin_N * first_N + cos_N * second_N], 1)


@dataclass(frozen=True)
class Spiral(_Plane):
    """g(z) = R(pi |z|) z: a diffeomorphism that preserves the Gaussian."""

    def forward(self, params: Params, z_ND: jax.Array) -> jax.Array:
        """Rotates each point by pi |z|."""
        return _rotate(z_ND, jnp.pi)

    def inverse(self, params: Params, x_ND: jax.Array) -> jax.Array:
        """Rotates back; the radius is the same."""
        return _rotate(x_ND, -jnp.pi)


@dataclass(frozen=True)
class Sinusoid(_Plane):
    """g(z) = (z0 + sin(1.5 z1), z1)."""

    def forward(self, params: Params, z_ND: jax.Array) -> jax.Array:
        """Shears the first coordinate."""
        return jnp.stack([z_ND[:, 0] + jnp.sin(1.5 * z_ND[:, 1]), z_ND[:, 1]], 1)

    def inverse(self, params: Params, x_ND: jax.Array) -> jax.Array:
        """Shears back."""
        return jnp.stack([x_ND[:, 0] - jnp.sin(1.5 * x_ND[:, 1]), x_ND[:, 1]], 1)


@dataclass(frozen=True)
class Parabola(_Plane):
    """g(z) = (z0, z1 + z0^2), the "banana"."""

    def forward(self, params: Params, z_ND: jax.Array) -> jax.Array:
        """Shears the second coordinate."""
        return jnp.stack([z_ND[:, 0], z_ND[:, 1] + jnp.square(z_ND[:, 0])], 1)

    def inverse(self, params: Params, x_ND: jax.Array) -> jax.Array:
        """Shears back."""
        return jnp.stack([x_ND[:, 0], x_ND[:, 1] - jnp.square(x_ND[:, 0])], 1)


@dataclass(frozen=True)
class RealNVP:
    """Couplings with random weights (Dinh et al., 2017).

    Attributes:
        config: sizes and kind of the couplings.
    """

    config: CouplingConfig

    @property
    def dim(self) -> int:
        """Features of z and of x."""
        return self.config.dim

    @cached_property
    def _functional(self) -> Functional:
        return functional(lambda rngs: Coupling(self.config, rngs))

    def init(self, key: jax.Array) -> Params:
        """Draws random weights."""
        return self._functional.init(key)

    def forward(self, params: Params, z_ND: jax.Array) -> jax.Array:
        """Applies the layers 0, 1, ..."""
        return self._functional.apply(params, z_ND)

    def inverse(self, params: Params, x_ND: jax.Array) -> jax.Array:
        """Inverts the layers in reverse order."""
        return self._functional.apply(params, x_ND, method="inverse")

    def log_det(self, params: Params, z_ND: jax.Array) -> jax.Array:
        """Returns the sum of the log-scales, zero for additive couplings."""
        return self._functional.apply(params, z_ND, method="log_det")

    def matched(self) -> Functional:
        """Returns the encoder that can invert this mixing exactly, with learnable weights."""
        config = CouplingConfig(
            self.config.dim, self.config.layers, self.config.kind, init="normal", gain=1.0
        )
        return matched_encoder(config)
