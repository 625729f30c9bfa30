import numpy as np
import pytest

from socialjepa_jax.objectives import moco
from tests.objectives import rivals_oracle as oracle
from tests.objectives.rivals_checks import DEVICES, Loss, f32, replaced

LOSS = Loss(
    lambda reduce, batch, _, temperature: moco.contrast(
        batch["q"], batch["k"], temperature=temperature, reduce=reduce
    )
)
BATCH = f32({"q": 3 * oracle.u(8, 3, 1), "k": 0.1 * oracle.u(8, 3, 1.2)})
ARGUMENTS = BATCH, {}, np.float32(0.2)


def reference(batch, _, temperature):
    return oracle.contrast(batch["q"], batch["k"], temperature)


@pytest.mark.parametrize(
    ("temperature", "shifts", "value"),
    [
        (0.2, (1, 2.2), 1.093411354),
        (0.2, (2, 1.2), 0.344590041),
        (1.0, (1, 2.2), 2.508589042),
        (1.0, (2, 1.2), 1.846575947),
    ],
)
def test_golden_values(temperature, shifts, value):
    batch = f32(dict(zip("qk", oracle.stack(4, 3, *shifts))))
    np.testing.assert_allclose(LOSS.value(batch, {}, np.float32(temperature)), value, rtol=2e-6)


@pytest.mark.parametrize("devices", DEVICES)
def test_value_and_gradient_on_devices_with_constant_keys(devices):
    LOSS.check(devices, reference, ("k",), *ARGUMENTS)


def test_bfloat16():
    LOSS.check_bfloat16(*ARGUMENTS)


def test_new_values_do_not_compile():
    LOSS.check_compiled_once(*ARGUMENTS)


@pytest.mark.parametrize("scale", [1e4, 1e30, 1e-30])
def test_length_does_not_matter(scale):
    longer = {name: scale * z for name, z in BATCH.items()}
    value = LOSS.finite(longer, {}, np.float32(0.2))
    np.testing.assert_allclose(value, LOSS.on(1)(*ARGUMENTS)[0], rtol=1e-6)


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_zero_vectors_give_the_chance_level(temperature):
    """2 tau ln N, of N keys rather than 2 N - 1 projections."""
    zeros = {name: np.zeros_like(z) for name, z in BATCH.items()}
    value = LOSS.finite(zeros, {}, np.float32(temperature))
    np.testing.assert_allclose(value, 2 * temperature * np.log(8), rtol=1e-6)
    LOSS.finite({**BATCH, "q": replaced(BATCH["q"], np.s_[2], 0.0)}, {}, np.float32(temperature))
