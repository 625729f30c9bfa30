"""The contrasts against the printed tables."""

import numpy as np
import pytest

from experiments.lejepa.ablations.contrasts import CONTRASTS
from socialjepa_jax.report.papers import lejepa as paper


def test_contrasts_are_those_of_the_printed_tables():
    found = {c.name: c.paper for c in CONTRASTS}
    heads = paper.HEADS
    averaged = np.mean(heads.rows["swa"][3:]) - np.mean(heads.rows["plain"][3:])
    assert found["4/averaged centres over online, no predictor"] == pytest.approx(averaged / 100)
    two, one = (72.26 + 74.24) / 2, (53.06 + 64.46) / 2
    assert found["1b/two global views over one"] == pytest.approx((two - one) / 100)
    assert found["1c/largest batch over smallest"] == pytest.approx(0.0252)
