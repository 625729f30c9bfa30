"""Transformer layers of encoders and predictors: dense layer, LayerNorm, attention, block.

Parameters, LayerNorm statistics and the softmax are float32; `dtype` is that of the other
computations. Layers flatten batch and tokens before the matrix product, and attention is written as
batched products, which XLA compiles to the fastest code on CPU and to the same kernels elsewhere.

Shape key: B batch, T tokens, D features, E features of a wider layer, H heads, K features per head,
N tokens of all sequences.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from socialjepa_jax.errors import check_divides
from socialjepa_jax.models import attention

HIDDEN_SCORE = -1e30  # finite, so that the softmax of a query without visible keys is finite

# Sequences of several lengths, concatenated along one axis of N tokens: (B, T) for each length.
Lengths = tuple[tuple[int, int], ...]


def unpack(x_ND: jax.Array, lengths: Lengths) -> list[jax.Array]:
    """Splits packed sequences: [N, D] -> [B, T, D] for each length."""
    ends = np.cumsum([batch * tokens for batch, tokens in lengths])
    return [
        x_ND[end - batch * tokens : end].reshape(batch, tokens, -1)
        for end, (batch, tokens) in zip(ends.tolist(), lengths)
    ]


def pack(parts: list[jax.Array]) -> jax.Array:
    """Packs sequences of several lengths: [B, T, D] for each length -> [N, D]."""
    return jnp.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])


class Dense(nnx.Module):
    """`x @ kernel + bias` over the last axis, computed in `dtype`.

    The kernel is normal with standard deviation `std`. (I-JEPA's code truncates it at the absolute
    value 2, which is 100 standard deviations away.)
    """

    def __init__(
        self, inputs: int, outputs: int, *, std: float, dtype: str, rngs: nnx.Rngs
    ) -> None:
        self.kernel = nnx.Param(std * jax.random.normal(rngs.params(), (inputs, outputs)))
        self.bias = nnx.Param(jnp.zeros(outputs))
        self.dtype = dtype

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the layer: [..., inputs] -> [..., outputs] in `dtype`."""
        flat = x.reshape(-1, x.shape[-1]).astype(self.dtype)
        out = flat @ self.kernel[...].astype(self.dtype) + self.bias[...].astype(self.dtype)[None]
        return out.reshape(*x.shape[:-1], -1)


@jax.custom_jvp
def gelu(x: jax.Array) -> jax.Array:
    """Computes the exact GELU x Phi(x) by erf; `jax.nn.gelu` uses the slower erfc."""
    return x * _normal_cdf(x)


@gelu.defjvp
def _gelu_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    cdf = _normal_cdf(x)
    return x * cdf, dx * (cdf + x * jnp.exp(-0.5 * x * x) * (2 * np.pi) ** -0.5)


def _normal_cdf(x: jax.Array) -> jax.Array:
    return 0.5 + 0.5 * jax.lax.erf(x * 0.5**0.5)


def normalize(x: jax.Array, eps: float) -> jax.Array:
    """Normalises the last axis to zero mean and unit variance, in float32, without learnt scale."""
    return _normalize(x.astype(jnp.float32), eps)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _normalize(x: jax.Array, eps: float) -> jax.Array:
    return _normalize_and_factor(x, eps)[0]


def _normalize_and_factor(x: jax.Array, eps: float) -> tuple[jax.Array, jax.Array]:
    centred = x - x.mean(-1, keepdims=True)
    factor = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + eps)
    return centred * factor, factor


# The derivatives below need the result alone, so that one array is kept for the backward pass;
# those that JAX derives keep every intermediate.
@_normalize.defjvp
def _normalize_jvp(
    eps: float, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    y, factor = _normalize_and_factor(x, eps)
    return y, factor * (dx - dx.mean(-1, keepdims=True) - y * (y * dx).mean(-1, keepdims=True))


@jax.custom_jvp
def softmax(x: jax.Array) -> jax.Array:
    """Computes the softmax over the last axis."""
    powers = jnp.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@softmax.defjvp
def _softmax_jvp(
    primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    y = softmax(x)
    return y, y * (dx - (y * dx).sum(-1, keepdims=True))


class LayerNorm(nnx.Module):
    """LayerNorm with scale and bias; statistics in float32, result in `dtype`."""

    def __init__(self, dim: int, *, dtype: str, eps: float = 1e-6) -> None:
        self.scale = nnx.Param(jnp.ones(dim))
        self.bias = nnx.Param(jnp.zeros(dim))
        self.dtype = dtype
        self.eps = eps

    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalises the last axis: [..., dim] -> [..., dim]."""
        shape = (1,) * (x.ndim - 1) + (-1,)
        out = normalize(x, self.eps) * self.scale[...].reshape(shape)
        return (out + self.bias[...].reshape(shape)).astype(self.dtype)


class Attention(nnx.Module):
    """Multi-head self-attention with biases (Vaswani et al., 2017).

    `choice` names the implementation, see `models.attention`.
    """

    def __init__(
        self, dim: int, heads: int, *, std: float, dtype: str, choice: str = "xla", rngs: nnx.Rngs
    ) -> None:
        self.qkv = Dense(dim, 3 * dim, std=std, dtype=dtype, rngs=rngs)
        self.proj = Dense(dim, dim, std=std, dtype=dtype, rngs=rngs)
        self.heads, self.choice = heads, choice

    def __call__(
        self,
        x_BTD: jax.Array,
        valid_BT: jax.Array | None = None,
        lengths: Lengths | None = None,
    ) -> jax.Array:
        """Applies attention: [B, T, D] -> [B, T, D].

        Args:
            x_BTD: tokens, or packed tokens [N, D] with `lengths`.
            valid_BT: False for keys that no query attends to; the implementation is then "xla".
            lengths: sequences of the packed tokens; a token attends to its own sequence only.
        """
        qkv = self.qkv(x_BTD)
        if lengths is None:
            return self.proj(self._attend(qkv, valid_BT))
        return self.proj(pack([self._attend(part, None) for part in unpack(qkv, lengths)]))

    def _attend(self, qkv_BTE: jax.Array, valid_BT: jax.Array | None) -> jax.Array:
        """Attends within each sequence: queries, keys and values [B, T, 3 D] -> [B, T, D]."""
        B, T, D = *qkv_BTE.shape[:2], qkv_BTE.shape[2] // 3
        qkv = qkv_BTE.reshape(B, T, 3, self.heads, D // self.heads)
        choice = "xla" if valid_BT is not None else self.choice
        choice = attention.choose(choice, T, D // self.heads, str(qkv.dtype))
        if choice != "xla":
            fused_BTHK = attention.kernel(choice, *jnp.moveaxis(qkv, 2, 0))
            return fused_BTHK.reshape(B, T, D)
        q_BHTK, k_BHTK, v_BHTK = jnp.moveaxis(qkv, (2, 3), (0, 2))
        scale = (D // self.heads) ** -0.5
        scores_BHTT = ((q_BHTK * scale) @ k_BHTK.mT).astype(jnp.float32)
        if valid_BT is not None:
            scores_BHTT = jnp.where(valid_BT[:, None, None, :], scores_BHTT, HIDDEN_SCORE)
        weights_BHTT = softmax(scores_BHTT).astype(v_BHTK.dtype)
        return (weights_BHTT @ v_BHTK).swapaxes(1, 2).reshape(B, T, D)


class Block(nnx.Module):
    """Pre-LayerNorm transformer block: attention, then an MLP with exact GELU."""

    def __init__(
        self,
        dim: int,
        heads: int,
        mlp_ratio: float,
        *,
        std: float,
        dtype: str,
        choice: str = "xla",
        rngs: nnx.Rngs,
    ) -> None:
        hidden = int(dim * mlp_ratio)
        self.norm1 = LayerNorm(dim, dtype=dtype)
        self.attention = Attention(dim, heads, std=std, dtype=dtype, choice=choice, rngs=rngs)
        self.norm2 = LayerNorm(dim, dtype=dtype)
        self.fc1 = Dense(dim, hidden, std=std, dtype=dtype, rngs=rngs)
        self.fc2 = Dense(hidden, dim, std=std, dtype=dtype, rngs=rngs)

    def __call__(
        self,
        x_BTD: jax.Array,
        valid_BT: jax.Array | None = None,
        lengths: Lengths | None = None,
    ) -> jax.Array:
        """Applies the block: [B, T, D] -> [B, T, D]; arguments as those of `Attention`."""
        with jax.named_scope("attention"):
            x_BTD = x_BTD + self.attention(self.norm1(x_BTD), valid_BT, lengths)
        with jax.named_scope("mlp"):
            hidden_BTE = self.fc1(self.norm2(x_BTD))
            # Keeps GELU's argument and result for the gradient, but not its normal cdf.
            return x_BTD + self.fc2(jax.checkpoint(gelu)(hidden_BTE))


@functools.cache
def sincos_positions(grid: tuple[int, int], dim: int) -> np.ndarray:
    """Returns fixed 2-D sine-cosine positions f32[rows * columns, dim] in raster order.

    The first half of the features encodes the column, the second half the row; each half is
    sin(p w_i) for all i and then cos(p w_i), with w_i = 10000^(-i / (dim / 4)), i = 0 .. dim/4 - 1
    (the convention of the I-JEPA and MAE code). `dim` must be a multiple of 4.
    """
    check_divides(4, dim=dim)
    frequencies = 10000.0 ** (-np.arange(dim // 4) / (dim / 4))
    row, column = np.meshgrid(np.arange(grid[0]), np.arange(grid[1]), indexing="ij")
    angles = [axis.reshape(-1, 1) * frequencies for axis in (column, row)]
    parts = [f(angle) for angle in angles for f in (np.sin, np.cos)]
    return np.concatenate(parts, axis=1).astype(np.float32)
