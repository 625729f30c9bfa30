"""Claims on lambda and the number of views, from made rows."""

import numpy as np

from experiments.lejepa import lambda_views


def test_a_plateau_that_moves_with_the_views_agrees():
    best = {2: 0.01, 4: 0.02, 8: 0.05}
    rows = [
        {
            "views": views,
            "lambda": weight,
            "accuracy": 0.8 - 0.01 * abs(np.log(weight / peak)),
            "accuracy_untrained": 0.4,
        }
        for views, peak in best.items()
        for weight in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
    ]
    claims = lambda_views._claims(rows, "accuracy")
    assert all(claim.agrees for claim in claims[:3])
    assert "0.05 at 8 views" in claims[1].paper and "0.05 at 8 views" in claims[1].note
