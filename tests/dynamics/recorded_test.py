"""Pairs of recorded moments: which moments, how often, and their correlation."""

import jax
import numpy as np
import pytest

from socialjepa_jax.dynamics import Recorded
from socialjepa_jax.dynamics.recorded import correlations
from socialjepa_jax.errors import InputError

# Every number says where it was: 100 x episode + moment, and its negative.
NUMBERS = 100.0 * np.arange(5)[:, None] + np.arange(20)
EPISODES = np.stack([NUMBERS, -NUMBERS], axis=-1)


def test_a_pair_is_two_moments_of_one_episode_a_stride_apart():
    process = Recorded(2, stride=7)
    first, second = process.views(process.params(EPISODES), jax.random.key(0), 4000)
    np.testing.assert_array_equal(second - first, np.tile([7.0, -7.0], (4000, 1)))
    seen, counts = np.unique(np.asarray(first)[:, 0], return_counts=True)
    np.testing.assert_array_equal(seen, NUMBERS[:, :13].ravel())
    assert counts.min() > 30 and counts.max() < 100  # 62 on average


def test_all_moments_are_measured_and_a_key_is_a_draw():
    process = Recorded(2, stride=19)
    params = process.params(EPISODES)
    drawn = np.asarray(process.stationary(params, jax.random.key(1), 4000))
    np.testing.assert_array_equal(np.unique(drawn[:, 0]), NUMBERS.ravel())
    np.testing.assert_array_equal(drawn, process.stationary(params, jax.random.key(1), 4000))


def test_correlations_are_those_of_the_moments():
    walk = np.random.default_rng(0).normal(size=(4, 60, 2)).cumsum(1)
    for stride in (1, 9):
        for dim, found in enumerate(correlations(walk, stride)):
            pairs = walk[:, :-stride, dim].ravel(), walk[:, stride:, dim].ravel()
            assert found == pytest.approx(np.corrcoef(*pairs)[0, 1], abs=1e-12)


@pytest.mark.parametrize(
    ("fields", "episodes", "message"),
    [
        ({"stride": 0}, EPISODES, "stride=0"),
        ({"stride": 20}, EPISODES, r"stride=20 must be in \[1, 19\]"),
        ({"dim": 3}, EPISODES, r"\[5, 20, 2\] must be \[episodes, moments, 3\]"),
        ({}, EPISODES[0], r"\[20, 2\] must be"),
        ({}, EPISODES[:0], r"\[0, 20, 2\] must be"),
    ],
)
def test_what_cannot_be_is_refused(fields, episodes, message):
    with pytest.raises(InputError, match=message):
        Recorded(**fields).params(episodes)


def test_a_recording_has_no_second_transition():
    process = Recorded(2)
    with pytest.raises(InputError, match="noised='both'"):
        process.views(process.params(EPISODES), jax.random.key(0), 4, "both")
