import numpy as np
import pytest

from socialjepa_jax.alignment.study.inputs import match_ids
from socialjepa_jax.errors import InputError


def test_ids_pair_rows_in_the_order_of_x():
    ids = [np.array([7, 3, 9, 5]), np.array(["5", "9", "1", "7"]), np.array([9, 5, 7, 8])]
    rows = match_ids(ids, ["a", "b", "c"])
    np.testing.assert_array_equal(rows, [[0, 2, 3], [3, 1, 0], [2, 0, 1]])


@pytest.mark.parametrize(
    ("ids_x", "ids_y", "message"),
    [
        ([1, 1, 2], [1, 2, 3], "a.npy: 1 occurs 2 times .first in row 0., ids must be unique"),
        ([1, 2], [3, 2, 2], "b.npy: 2 occurs 2 times .first in row 1."),
        ([1, 2], [3, 4], "a.npy .2. and b.npy .2. have no id in common"),
    ],
)
def test_ids_that_cannot_pair_are_named(ids_x, ids_y, message):
    with pytest.raises(InputError, match=message):
        match_ids([np.array(ids_x), np.array(ids_y)], ["a.npy", "b.npy"])
