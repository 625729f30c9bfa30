"""Strict modes for every test: several CPU devices, no implicit rank promotion."""

import jax
import pytest

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compilation is most of these folders' time, and what they check does not depend on its effort.
COMPILED_QUICKLY = {"alignment", "configs", "identifiability", "models", "objectives"}  # folders
COMPILED_QUICKLY |= {"agents_test.py", "loop_test.py", "loop_recovery_test.py"}  # files


@pytest.fixture(autouse=True, scope="module")
def compilation_effort(request):
    """Compiles with few optimisations while one of those files is tested."""
    before = jax.config.read("jax_disable_most_optimizations")
    quickly = bool({request.path.parent.name, request.path.name} & COMPILED_QUICKLY)
    jax.config.update("jax_disable_most_optimizations", quickly)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
