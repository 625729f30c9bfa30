import numpy as np
import pytest

from socialjepa_jax.objectives import simclr
from tests.objectives import rivals_oracle as oracle
from tests.objectives.rivals_checks import DEVICES, Loss, f32, f64, replaced

LOSS = Loss(
    lambda reduce, batch, _, temperature: simclr.nt_xent(
        batch["z1"], batch["z2"], temperature=temperature, reduce=reduce
    )
)
BATCH = f32({"z1": 3 * oracle.u(8, 3, 1), "z2": 0.1 * oracle.u(8, 3, 2)})
ARGUMENTS = BATCH, {}, np.float32(0.1)


def reference(batch, _, temperature):
    return oracle.nt_xent(batch["z1"], batch["z2"], temperature)


@pytest.mark.parametrize(("temperature", "value"), [(0.1, 3.376049722), (0.5, 1.425219951)])
def test_golden_values(temperature, value):
    """The published code returns twice these values."""
    batch = f32({"z1": oracle.u(4, 3, 1), "z2": oracle.u(4, 3, 2)})
    np.testing.assert_allclose(LOSS.value(batch, {}, np.float32(temperature)), value, rtol=2e-6)


@pytest.mark.parametrize("devices", DEVICES)
def test_value_and_gradient_on_devices(devices):
    LOSS.check(devices, reference, (), *ARGUMENTS)


def test_candidates_of_all_devices_carry_gradient():
    """Without the candidates' part, which the gradient would lose, it is another one."""
    _, (slopes, _) = LOSS.on(4)(*ARGUMENTS)
    z1, z2 = f64((BATCH["z1"], BATCH["z2"]))
    anchors_only = oracle.gradient(lambda z: oracle.nt_xent(z, z2, 0.1, (z1, z2)), z1)
    whole = oracle.gradient(lambda z: oracle.nt_xent(z, z2, 0.1), z1)
    scale = np.abs(whole).max()
    assert np.abs(slopes["z1"] - whole).max() < 1e-5 * scale
    assert np.abs(slopes["z1"] - anchors_only).max() > 0.2 * scale


def test_bfloat16():
    LOSS.check_bfloat16(*ARGUMENTS)


def test_new_values_do_not_compile():
    LOSS.check_compiled_once(*ARGUMENTS)


@pytest.mark.parametrize("scale", [1e4, 1e30, 1e-30])
def test_length_does_not_matter(scale):
    longer = {name: scale * z for name, z in BATCH.items()}
    value = LOSS.finite(longer, {}, np.float32(0.1))
    np.testing.assert_allclose(value, LOSS.on(1)(*ARGUMENTS)[0], rtol=1e-6)


def test_zero_vectors_give_the_chance_level():
    zeros = {name: np.zeros_like(z) for name, z in BATCH.items()}
    np.testing.assert_allclose(LOSS.finite(zeros, {}, np.float32(0.1)), np.log(15), rtol=1e-6)
    LOSS.finite({**BATCH, "z1": replaced(BATCH["z1"], np.s_[2], 0.0)}, {}, np.float32(0.1))
