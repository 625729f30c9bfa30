"""Which code computes softmax(q k^T) v: plain matrix products, or a kernel that keeps the scores.

At 197 tokens the scores of a ViT-S are 40 % of an encoder's memory traffic, at 37 next to nothing,
so the fastest choice depends on the number of tokens and the device.

Shape key: B batch, T tokens, H heads, K features per head.
"""

import warnings

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import InputError, check_one_of

CHOICES = ("auto", "xla", "cudnn", "pallas")

# What `experiments.gpu_suite` found fastest, forward and backward, in bfloat16 with 64 features per
# head: device kind -> ((most tokens, choice), ...), tokens ascending. What is not here takes "xla".
FASTEST: dict[str, tuple[tuple[int, str], ...]] = {}

_BLOCK = 64  # tokens that the Pallas kernel takes at once; sequences are padded to a multiple


def check(choice: str, head_dim: int, dtype: str) -> None:
    """Refuses what a kernel or the device at hand cannot do.

    Raises:
        InputError: with the reason.
    """
    check_one_of(CHOICES, attention=choice)
    if choice not in ("auto", "xla") and (needed := _lacks(head_dim, dtype)):
        raise InputError(f"attention={choice!r} needs {needed}")


def _lacks(head_dim: int, dtype: str) -> str:
    """What kernels need and do not get; empty where they have it all."""
    backend = jax.default_backend()
    if backend != "gpu":
        return f"a GPU, here is a {backend}; use 'xla'"
    if dtype != "bfloat16":
        return f"dtype='bfloat16', not {dtype!r}"
    if head_dim % 8 or not 16 <= head_dim <= 128:
        return f"a multiple of 8 from 16 to 128 features per head, not {head_dim}"
    return ""


def choose(choice: str, tokens: int, head_dim: int, dtype: str) -> str:
    """The code that a call takes: "xla", "cudnn" or "pallas".

    On several devices "auto" is "xla": a kernel's result has no type that says over which devices
    it varies, and `shard_map` needs to know.

    Raises:
        InputError: an explicit choice cannot be met; while tracing, so before anything compiles.
    """
    check(choice, head_dim, dtype)
    if choice != "auto":
        return choice
    if _lacks(head_dim, dtype) or jax.device_count() > 1:
        return "xla"
    table = FASTEST.get(jax.devices()[0].device_kind, ())
    return next((name for most, name in table if tokens <= most), "xla")


def kernel(
    choice: str, q_BTHK: jax.Array, k_BTHK: jax.Array, v_BTHK: jax.Array, interpret: bool = False
) -> jax.Array:
    """softmax(q k^T / sqrt(K)) v by the kernel called "cudnn" or "pallas": [B, T, H, K].

    `interpret` runs the Pallas kernel's program without a GPU, slowly.
    """
    if choice == "cudnn":
        return _cudnn(q_BTHK, k_BTHK, v_BTHK)
    return _pallas(q_BTHK, k_BTHK, v_BTHK, interpret)


def _cudnn(q_BTHK: jax.Array, k_BTHK: jax.Array, v_BTHK: jax.Array) -> jax.Array:
    T = q_BTHK.shape[1]
    if T % 2 == 0:
        return jax.nn.dot_product_attention(q_BTHK, k_BTHK, v_BTHK, implementation="cudnn")
    # jax refuses the gradient for odd numbers of tokens (0.10 to 0.12 take every call for one with
    # a bias), so one more is added that nobody sees.
    # Under vmap jax 0.10 needs lengths that are mapped as the rest is, which no constant would be.
    lengths_B = jnp.where(q_BTHK[:, 0, 0, 0] == 0, T, T).astype(jnp.int32)
    out = jax.nn.dot_product_attention(
        *(_pad_tokens(x, 1) for x in (q_BTHK, k_BTHK, v_BTHK)),
        query_seq_lengths=lengths_B,
        key_value_seq_lengths=lengths_B,
        implementation="cudnn",
    )
    return out[:, :T]


def _pad_tokens(x: jax.Array, padding: int) -> jax.Array:
    return jnp.pad(x, ((0, 0), (0, padding)) + ((0, 0),) * (x.ndim - 2))


def _pallas(q_BTHK: jax.Array, k_BTHK: jax.Array, v_BTHK: jax.Array, interpret: bool) -> jax.Array:
    B, T, _, K = q_BTHK.shape
    segments_BT = jnp.ones((B, T), jnp.int32)  # the padding sees itself alone
    arguments = [_pad_tokens(x, -T % _BLOCK) for x in (q_BTHK, k_BTHK, v_BTHK, segments_BT)]
    with warnings.catch_warnings():
        # Newer versions of jax point to a successor, which the older ones do not have.
        warnings.simplefilter("ignore", DeprecationWarning)
        from jax.experimental.pallas.ops.gpu import attention  # costs a second, and needs Triton

        sizes = attention.BlockSizes(_BLOCK, _BLOCK, 32, 32, 32, 32)
        out = attention.mha(*arguments, sm_scale=K**-0.5, block_sizes=sizes, interpret=interpret)
    return out[:, :T]
