import numpy as np
import pytest

from socialjepa_jax.alignment import fit, solve
from tests.alignment.golden import CASES, GOLDEN


def test_folds_keep_groups_whole_and_are_balanced():
    groups = np.random.default_rng(0).integers(0, 40, 500)
    fold = solve.group_folds(groups, 10)
    assert all(len(set(fold[groups == g])) == 1 for g in np.unique(groups))
    sizes = np.bincount(fold)
    assert len(sizes) == 10
    assert sizes.max() - sizes.min() <= np.bincount(groups).max()


@pytest.mark.parametrize("case", CASES)
def test_reduced_rank_matches(case):
    x, y = GOLDEN[f"{case}/in/X_tr"], GOLDEN[f"{case}/in/Y_tr"]
    linear_map = fit(x, y, method="reduced_rank", rank=5, ridge=1.0)
    np.testing.assert_allclose(linear_map.w, GOLDEN[f"{case}/rrr5/W"], rtol=1e-6, atol=1e-9)
