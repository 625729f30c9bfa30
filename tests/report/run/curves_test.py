import numpy as np
import pytest

from socialjepa_jax.report.run import curves


def test_control_levels_and_curves(run):
    levels = curves.control_levels(run, "state")
    assert [level.label.split(":")[0] for level in levels] == [
        "untrained, other init", "untrained, same init", "pixel PCA", "shared factors",
        "shuffled within cell", "shuffled",
    ]  # fmt: skip
    assert (levels[0].low, levels[0].high) == pytest.approx((0.30, 0.31))
    lines = curves.r2_curves(run, "state")
    assert [bool(curve.label) for curve in lines] == [True, False, False, True]
    middle = (np.array(lines[1].y) + lines[2].y) / 2
    np.testing.assert_allclose(lines[3].y, middle, atol=1e-12)
