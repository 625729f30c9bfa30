"""Strict modes for every test: several CPU devices, no implicit rank promotion.

Compilation is most of the tests' time. By day programs are compiled with little effort, and what is
compiled is kept for other tests of the same session, since many compile the same program (a run and
the run that goes on, one device and several processes). By night all is compiled as users do.
"""

import gc
import os
import pathlib
import shutil
import tempfile

# Before NumPy is imported: a product of matrices rounds alike only on as many threads, and runs
# that tests compare to the bit are in processes of their own.
os.environ["OMP_NUM_THREADS"] = "1"

import jax
import pytest

CACHE = "SOCIALJEPA_TEST_COMPILATION_CACHE"  # inherited by the workers of a session
QUICK_FUSIONS = "--xla_cpu_use_fusion_emitters=false"  # a third of the time, before jax 0.11
COMPILED_FULLY = {"epps_pulley_test.py", "trigonometry_test.py"}  # last digits are tested

gc.set_threshold(100_000, 20, 20)  # programs are large trees, walked again at every collection

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_addoption(parser):
    parser.addoption("--nuscenes", help="Real images of nuScenes, or its data root.")


def by_day(config):
    """Whether these are the tests of every change."""
    return config.option.markexpr == "not nightly"


def pytest_configure(config):
    if CACHE not in os.environ:
        os.environ[CACHE] = tempfile.mkdtemp(prefix="compiled_")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(CACHE), ignore_errors=True))
        if by_day(config) and jax.__version_info__ < (0, 11):  # an unknown flag ends the process
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_FUSIONS}"
    jax.config.update("jax_compilation_cache_dir", os.environ[CACHE])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@pytest.fixture(autouse=True, scope="module")
def compilation_effort(request):
    """Compiles with few optimisations while a file is tested, unless that would change the test."""
    before = jax.config.read("jax_disable_most_optimizations")
    quickly = by_day(request.config) and request.path.name not in COMPILED_FULLY
    jax.config.update("jax_disable_most_optimizations", quickly)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(autouse=True, scope="module")
def coarse_figures(request):
    """Draws the figures of whole runs with few dots by day: a page has a dozen of them."""
    if not by_day(request.config) or request.path.parent != pathlib.Path(__file__).parent:
        yield
        return
    from socialjepa_jax.report import album  # matplotlib, which most files do not need

    with pytest.MonkeyPatch.context() as patch:
        fine = album.style.png
        patch.setattr(album.style, "png", lambda figure, dpi=180: fine(figure, min(dpi, 40)))
        yield
