import jax
import numpy as np
import pytest

from socialjepa_jax.objectives import barlow
from tests.objectives import rivals_oracle as oracle
from tests.objectives.rivals_checks import DEVICES, Loss, f32, replaced


def of_batch(reduce, batch, _, settings):
    options = {"off_diagonal": settings["off_diagonal"], "eps": settings["eps"]}
    return barlow.cross_correlation_loss(batch["z1"], batch["z2"], **options, reduce=reduce)


LOSS = Loss(of_batch)
BATCH = f32({"z1": 2 * oracle.u(8, 3, 1) + 5, "z2": 0.5 * oracle.u(8, 3, 1.4)})
SETTINGS = f32({"off_diagonal": 0.0051, "eps": 1e-5})
ARGUMENTS = BATCH, {}, SETTINGS
GOLDEN = f32({"z1": oracle.u(6, 3, 1), "z2": oracle.u(6, 3, 2)})


def reference(batch, _, settings):
    return oracle.cross_correlation_loss(batch["z1"], batch["z2"], **settings)


@pytest.mark.parametrize(
    ("eps", "on_diagonal", "off_diagonal", "value"),
    [
        (1e-5, 0.688379007, 1.753316058, 0.697320919),
        (0.0, 0.688347879, 1.753389274, 0.697290164),
    ],
)
def test_golden_values(eps, on_diagonal, off_diagonal, value):
    terms = [(0.0, on_diagonal), (1.0, on_diagonal + off_diagonal), (0.0051, value)]
    for weight, expected in terms:
        settings = f32({"off_diagonal": weight, "eps": eps})
        np.testing.assert_allclose(LOSS.value(GOLDEN, {}, settings), expected, rtol=2e-6)


def test_defaults_and_golden_correlation():
    def both(z1, z2):
        return barlow.cross_correlation_loss(z1, z2), barlow.cross_correlation(z1, z2)

    value, correlation = jax.jit(both)(GOLDEN["z1"], GOLDEN["z2"])
    np.testing.assert_allclose(value, 0.697320919, rtol=2e-6)
    np.testing.assert_allclose(correlation[0], [0.593488013, -0.795153649, 0.330061753], rtol=2e-6)


@pytest.mark.parametrize("devices", DEVICES)
def test_value_and_gradient_on_devices(devices):
    """Exact on any number; the published gradient is this one over the number of devices."""
    LOSS.check(devices, reference, (), *ARGUMENTS)


def test_bfloat16():
    LOSS.check_bfloat16(*ARGUMENTS)


def test_new_values_do_not_compile():
    LOSS.check_compiled_once(*ARGUMENTS)


def test_large_features():
    large = {name: 1e4 * z for name, z in BATCH.items()}
    expected = oracle.cross_correlation_loss(*(np.float64(z) for z in large.values()))
    np.testing.assert_allclose(LOSS.finite(large, {}, SETTINGS), expected, rtol=1e-5)


def test_constant_features_give_their_number():
    """Their correlations are 0."""
    zeros = {name: np.zeros_like(z) for name, z in BATCH.items()}
    assert LOSS.finite(zeros, {}, SETTINGS) == 3.0
    LOSS.finite({**BATCH, "z1": replaced(BATCH["z1"], np.s_[:, 1], 7.0)}, {}, SETTINGS)
