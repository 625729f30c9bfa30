"""RealNVP coupling layers, an invertible network used as a mixing and as its matched encoder.

Layer i keeps one half of the features and changes the other half by functions of the kept one
(Dinh et al., 2017). Even layers change the second half, odd layers the first.

Shape key: B batch, D features, H = D / 2, L layers.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from socialjepa_jax.errors import check_divides, check_one_of, check_positive
from socialjepa_jax.models.functional import Functional, functional


@dataclass(frozen=True)
class CouplingConfig:
    """A stack of couplings z2 <- z2 exp(s(z1)) + t(z1) with s, t = tanh(z1 W).

    Attributes:
        dim: number of features, even.
        layers: number of couplings.
        kind: "additive" (s = 0, the published code of the identifiability paper) or "affine"
            (RealNVP as printed in that paper).
        init: "orthogonal": W = `gain` Q with a random orthogonal Q (the code's mixing);
            "normal": entries of standard deviation `gain` H^(-1/2) (its encoder).
        gain: see `init`. The published code uses 2 and 1.
    """

    dim: int
    layers: int = 4
    kind: str = "additive"
    init: str = "orthogonal"
    gain: float = 2.0

    def __post_init__(self) -> None:
        check_positive(dim=self.dim, layers=self.layers, gain=self.gain)
        check_divides(2, dim=self.dim)
        check_one_of(("additive", "affine"), kind=self.kind)
        check_one_of(("orthogonal", "normal"), init=self.init)


def _kernel(key: jax.Array, config: CouplingConfig) -> jax.Array:
    """Draws kernels f32[L, H, H] by the rule `config.init`."""
    half = config.dim // 2
    normal_LHH = jax.random.normal(key, (config.layers, half, half))
    if config.init == "normal":
        return config.gain * half**-0.5 * normal_LHH
    q_LHH, r_LHH = jnp.linalg.qr(normal_LHH)
    # The sign of R's diagonal makes Q uniform over the orthogonal group (Mezzadri, 2007).
    return config.gain * q_LHH * jnp.sign(jnp.diagonal(r_LHH, axis1=1, axis2=2))[:, None, :]


class Coupling(nnx.Module):
    """A stack of couplings with its exact inverse and log-determinant."""

    def __init__(self, config: CouplingConfig, rngs: nnx.Rngs) -> None:
        self.config = config
        self.shift = nnx.Dict(kernel=nnx.Param(_kernel(rngs.params(), config)))
        if config.kind == "affine":
            self.scale = nnx.Dict(kernel=nnx.Param(_kernel(rngs.params(), config)))

    def _scale_and_shift(self, i: int, kept_BH: jax.Array) -> tuple[jax.Array | float, jax.Array]:
        """Returns log-scale and shift of the half that layer i changes."""
        t_BH = jnp.tanh(kept_BH @ self.shift["kernel"][i])
        if self.config.kind == "additive":
            return 0.0, t_BH
        return jnp.tanh(kept_BH @ self.scale["kernel"][i]), t_BH

    def _forward(self, z_BD: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Applies the layers 0, 1, ... and sums their log-scales: f32[B, D], f32[B]."""
        halves, log_det_B = jnp.split(z_BD, 2, axis=1), jnp.zeros(z_BD.shape[0])
        for i in range(self.config.layers):
            changed = 1 - i % 2
            s_BH, t_BH = self._scale_and_shift(i, halves[1 - changed])
            halves[changed] = halves[changed] * jnp.exp(s_BH) + t_BH
            log_det_B += jnp.broadcast_to(s_BH, t_BH.shape).sum(1)
        return jnp.concatenate(halves, axis=1), log_det_B

    def __call__(self, z_BD: jax.Array) -> jax.Array:
        """Applies the layers 0, 1, ...: f32[B, D] -> f32[B, D]."""
        return self._forward(z_BD)[0]

    def inverse(self, x_BD: jax.Array) -> jax.Array:
        """Inverts `__call__` exactly: f32[B, D] -> f32[B, D]."""
        halves = jnp.split(x_BD, 2, axis=1)
        for i in reversed(range(self.config.layers)):
            changed = 1 - i % 2
            s_BH, t_BH = self._scale_and_shift(i, halves[1 - changed])
            halves[changed] = (halves[changed] - t_BH) * jnp.exp(-s_BH)
        return jnp.concatenate(halves, axis=1)

    def log_det(self, z_BD: jax.Array) -> jax.Array:
        """Returns log |det J| of `__call__` at each point: f32[B], zero for additive couplings."""
        return self._forward(z_BD)[1]


def matched_encoder(config: CouplingConfig) -> Functional:
    """Returns the couplings in the inverse direction: the encoder that fits a coupling mixing."""
    init, apply = functional(lambda rngs: Coupling(config, rngs))
    return Functional(init, partial(apply, method="inverse"))
