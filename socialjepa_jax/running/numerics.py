"""Numerics of a run: fixed in the code, whatever the environment of the process says."""

import contextlib
from collections.abc import Iterator

import jax

from socialjepa_jax.keys import PRNG

_FIXED = {
    "jax_enable_x64": False,
    "jax_default_prng_impl": PRNG,
    "jax_threefry_partitionable": True,
    "jax_random_seed_offset": 0,
}


@contextlib.contextmanager
def fixed() -> Iterator[None]:
    """Trains in 32 bits, with one implementation of random keys, inside the context.

    The settings hold in every thread, as one of them reads data, and in this thread also where the
    caller has changed them for its thread alone.
    """
    before = {name: jax.config.values[name] for name in _FIXED}
    for name, value in _FIXED.items():
        jax.config.update(name, value)
    try:
        with (
            jax.enable_x64(False),
            jax.default_prng_impl(PRNG),
            jax.threefry_partitionable(True),
        ):
            yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
