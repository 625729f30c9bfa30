"""Implementations of softmax(q k^T) v: matrix products, or a kernel that stores no scores.

The scores of a ViT-S are 40 % of the encoder's memory traffic at 197 tokens and almost none at 37,
so the fastest implementation depends on the number of tokens and on the device.

Shape key: B batch, T tokens, H heads, K features per head.
"""

import warnings

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import InputError, check_one_of

CHOICES = ("auto", "xla", "cudnn", "pallas")

# Choices of "auto": device kind -> ((most tokens, choice), ...), tokens ascending. The table is
# empty, since no GPU has been measured: "auto" always takes "xla". `experiments.gpu_suite` measures
# a device's entry, the fastest choice forward and backward in bfloat16 at 64 features per head.
FASTEST: dict[str, tuple[tuple[int, str], ...]] = {}

_BLOCK = 64  # tokens of a block of the Pallas kernel; sequences are padded to a multiple


def check(choice: str, head_dim: int, dtype: str) -> None:
    """Raises `InputError` if a kernel or the present device does not support the choice."""
    check_one_of(CHOICES, attention=choice)
    if choice not in ("auto", "xla") and (needed := _lacks(head_dim, dtype)):
        raise InputError(f"attention={choice!r} needs {needed}")


def _lacks(head_dim: int, dtype: str) -> str:
    """Returns the requirement of kernels that is not met, or an empty string."""
    backend = jax.default_backend()
    if backend != "gpu":
        return f"a GPU, here is a {backend}; use 'xla'"
    if dtype != "bfloat16":
        return f"dtype='bfloat16', not {dtype!r}"
    if head_dim % 8 or not 16 <= head_dim <= 128:
        return f"a multiple of 8 from 16 to 128 features per head, not {head_dim}"
    return ""


def choose(choice: str, tokens: int, head_dim: int, dtype: str) -> str:
    """Returns the implementation of a call: "xla", "cudnn" or "pallas".

    On several devices "auto" is "xla": `shard_map` needs the mesh axes over which a result varies,
    and the type of a kernel's result does not state them.

    Raises:
        InputError: if an explicit choice is not supported; at tracing time, before compilation.
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
    """Computes softmax(q k^T / sqrt(K)) v by the kernel "cudnn" or "pallas": [B, T, H, K].

    `interpret` runs the Pallas kernel without a GPU, slowly.
    """
    if choice == "cudnn":
        return _cudnn(q_BTHK, k_BTHK, v_BTHK)
    return _pallas(q_BTHK, k_BTHK, v_BTHK, interpret)


def _cudnn(q_BTHK: jax.Array, k_BTHK: jax.Array, v_BTHK: jax.Array) -> jax.Array:
    T = q_BTHK.shape[1]
    if T % 2 == 0:
        return jax.nn.dot_product_attention(q_BTHK, k_BTHK, v_BTHK, implementation="cudnn")
    # JAX refuses the gradient for odd numbers of tokens (0.10 to 0.12 act as if every call had a
    # bias), so a token is added that the lengths exclude.
    # Under vmap JAX 0.10 needs lengths that are mapped like the other arguments; a constant is not.
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
    segments_BT = jnp.ones((B, T), jnp.int32)  # padding gets segment 0, so no token attends to it
    arguments = [_pad_tokens(x, -T % _BLOCK) for x in (q_BTHK, k_BTHK, v_BTHK, segments_BT)]
    with warnings.catch_warnings():
        # Newer versions of JAX name a successor that the older versions lack.
        warnings.simplefilter("ignore", DeprecationWarning)
        from jax.experimental.pallas.ops.gpu import attention  # takes a second and needs Triton

        sizes = attention.BlockSizes(_BLOCK, _BLOCK, 32, 32, 32, 32)
        out = attention.mha(*arguments, sm_scale=K**-0.5, block_sizes=sizes, interpret=interpret)
    return out[:, :T]
