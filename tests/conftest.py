"""Strict modes for every test: several CPU devices, no implicit rank promotion."""

import jax
import pytest

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compilation is most of these folders' time, and what they check does not depend on its effort.
COMPILED_QUICKLY = {"configs", "models", "objectives"}


@pytest.fixture(autouse=True, scope="module")
def compilation_effort(request):
    """Compiles with few optimisations while a file of those folders is tested."""
    before = jax.config.read("jax_disable_most_optimizations")
    quickly = request.path.parent.name in COMPILED_QUICKLY
    jax.config.update("jax_disable_most_optimizations", quickly)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
