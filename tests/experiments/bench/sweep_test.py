"""The command line of the bench of sweeps."""

import pytest

from experiments.bench import sweep
from socialjepa_jax.errors import InputError


def test_numbers_of_agents():
    assert sweep.numbers(["1", "9"]) == [1, 9]
    for texts in ([], ["x"], ["0"], ["-1"], ["1.5"], ["1", ""]):
        with pytest.raises(InputError, match=r"--agents=.* must be positive integers"):
            sweep.numbers(texts)
