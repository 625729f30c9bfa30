"""Every dataset is registered under its own kind."""

import pytest

from socialjepa_jax import data
from socialjepa_jax.errors import InputError


@pytest.mark.parametrize("kind", data.DATASETS)
def test_kinds_are_the_registrys(kind):
    assert data.DATASETS[kind]().kind == kind
    with pytest.raises(InputError, match="kind='other'"):
        data.DATASETS[kind](kind="other")
