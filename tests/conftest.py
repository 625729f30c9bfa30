"""Strict modes for every test: several CPU devices, no implicit rank promotion.

Many tests compile the same program (a run and the run that goes on, one device and several
processes), so a test session keeps what it compiles in a folder of its own.
"""

import os
import shutil
import tempfile

import jax
import pytest

CACHE = "SOCIALJEPA_TEST_COMPILATION_CACHE"  # inherited by the workers of a session

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_configure(config):
    if CACHE not in os.environ:
        os.environ[CACHE] = tempfile.mkdtemp(prefix="compiled_")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(CACHE), ignore_errors=True))
    jax.config.update("jax_compilation_cache_dir", os.environ[CACHE])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


# Compilation is most of these folders' time, and what they check does not depend on its effort.
COMPILED_QUICKLY = {"alignment", "configs", "identifiability", "models", "objectives"}  # folders
COMPILED_QUICKLY |= {"agents_test.py", "batches_test.py", "gpu_suite_test.py", "loop_test.py"}
COMPILED_QUICKLY |= {"loop_recovery_test.py", "scaling_model_test.py"}


@pytest.fixture(autouse=True, scope="module")
def compilation_effort(request):
    """Compiles with few optimisations while one of those files is tested."""
    before = jax.config.read("jax_disable_most_optimizations")
    quickly = bool({request.path.parent.name, request.path.name} & COMPILED_QUICKLY)
    jax.config.update("jax_disable_most_optimizations", quickly)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
