"""Streams of an agent: keys that are fixed for good, by folds of raw keys."""

import jax
import numpy as np
import pytest

from socialjepa_jax.keys import Stream, agent_key, step_keys

# Of saved runs.
NUMBERS = {
    "INIT": 0, "ORDER": 1, "STEP": 2, "SHUFFLE": 3, "WORLD": 7, "VIEW": 8, "FIXED_SLICES": 101,
}  # fmt: skip


def folded(seed, *numbers):
    key = np.array([0, seed], np.uint32)  # a raw key of Threefry
    for number in numbers:
        key = jax.random.fold_in(key, number)
    return key


@pytest.mark.parametrize("name, number", NUMBERS.items())
def test_a_stream_is_folded_into_the_seed(name, number):
    assert len(NUMBERS) == len(Stream)
    key = jax.random.key_data(agent_key(3, Stream[name]))
    np.testing.assert_array_equal(key, folded(3, number))


def test_a_step_has_a_key_for_the_loss_and_another_for_the_augmentation():
    found = np.stack([jax.random.key_data(key) for key in step_keys(3, 7)])
    np.testing.assert_array_equal(found, jax.random.split(folded(3, 2, 7)))
    assert (found[0] != found[1]).any()
