import numpy as np
import pytest

from socialjepa_jax.alignment import fit_hub
from socialjepa_jax.errors import InputError
from tests.alignment.golden import GOLDEN, check


def test_three_views_have_their_consensus():
    hub = fit_hub([GOLDEN[f"three_views/in/V{i}"] for i in range(3)])
    np.testing.assert_allclose(hub.objective, GOLDEN["three_views/gpa/objective"], rtol=1e-6)
    spectrum = np.linalg.svd(hub.consensus, compute_uv=False)
    reference = GOLDEN["three_views/gpa/consensus_singular_values"]
    np.testing.assert_allclose(spectrum, reference, rtol=1e-6)
    check("three_views", "gpa/consensus_gram_trace", np.sum(hub.consensus**2))


def test_hub_translates_between_rotated_spaces_of_different_width():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(100, 4))
    spaces = [u @ np.linalg.qr(rng.normal(size=(d, d)))[0][:4] + d for d in (4, 6, 5)]
    hub = fit_hub(spaces)
    assert hub.objective < 1e-12
    for source in range(3):
        for target in range(3):
            carried = hub.translate(spaces[source], source, target)
            np.testing.assert_allclose(carried, spaces[target], atol=1e-7)
    with pytest.raises(InputError, match="at least 2 spaces"):
        fit_hub(spaces[:1])
