"""Pages of the alignment tool are made by modules that import no training libraries."""

import subprocess
import sys

import pytest

TRAINING = ("jax", "flax", "optax", "orbax", "ml_collections", "grain", "tensorboard")


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("html tables style looks figures image_grid album", TRAINING),
        ("html tables", (*TRAINING, "matplotlib", "PIL")),  # matplotlib imports Pillow
    ],
)
def test_importing_stays_light(modules, heavy):
    imports = ", ".join(f"socialjepa_jax.report.{name}" for name in modules.split())
    code = f"import sys, {imports}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
