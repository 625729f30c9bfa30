import functools

import jax
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.objectives import swav
from tests.objectives import rivals_oracle as oracle
from tests.objectives.rivals_checks import DEVICES, Loss, f32, f64, replaced


def of_batch(reduce, batch, whole, settings):
    z_VBD, queue_AQD = batch["z"].swapaxes(0, 1), whole.get("queue")
    return swav.swap_loss(
        z_VBD, whole["prototypes"], queue_AQD=queue_AQD, **settings, reduce=reduce
    )


LOSS = Loss(of_batch)
SETTINGS = f32({"eps": 0.05, "temperature": 0.1})
PROTOTYPES = oracle.l2(oracle.u(5, 4, 9))
QUEUE = oracle.l2(oracle.stack(8, 4, 11, 12))
BATCH = f32({"z": 3 * oracle.stack(8, 4, 1, 2, 3).swapaxes(0, 1)})
WHOLE = f32({"prototypes": PROTOTYPES, "queue": QUEUE})
GOLDEN = f32({"z": oracle.stack(3, 4, 1, 2, 3).swapaxes(0, 1)})
GOLDEN_QUEUE = oracle.l2(oracle.stack(6, 4, 11, 12))
sinkhorn = jax.jit(swav.sinkhorn)


def assigned(batch, whole):
    z_VBD = batch["z"].swapaxes(0, 1)
    return oracle.assignments(z_VBD, whole["prototypes"], (0, 1), 0.05, whole.get("queue"))


def of_targets(targets, batch, whole, settings):
    z_VBD = batch["z"].swapaxes(0, 1)
    return oracle.swap_loss(z_VBD, whole["prototypes"], targets, (0, 1), settings["temperature"])


@pytest.mark.parametrize(
    ("eps", "rounds", "row", "sums"),
    [
        (0.05, 1, (0.999742347, 0.000257653), (1.472715766, 1.982671561, 1.999835868, 0.544776805)),
        (0.05, 3, (0.999876589, 0.000123409), (1.177721611, 1.856523565, 1.999824156, 0.965930668)),
        (0.05, 100, (0.99999119, 0.000008809), (1.5, 1.5, 1.5, 1.5)),
        (0.07, 3, (0.998410882, 0.001588294), (1.205979216, 1.658622399, 1.997524894, 1.137873491)),
    ],
)
def test_golden_assignments(eps, rounds, row, sums):
    q_BK = sinkhorn(f32(oracle.u(6, 4, 1)), eps=eps, rounds=rounds)
    np.testing.assert_allclose(q_BK[0, :2], row, rtol=2e-6, atol=3e-9)
    np.testing.assert_allclose(q_BK.sum(0), sums, rtol=2e-6)
    np.testing.assert_allclose(q_BK.sum(1), 1.0, rtol=1e-6)


def test_assignments_of_scores_of_any_size():
    scores_BK = 1e4 * f32(2 * np.eye(4) - 1)
    np.testing.assert_array_equal(sinkhorn(scores_BK, eps=0.05), np.eye(4))
    q_BK = sinkhorn(1e4 * f32(oracle.u(6, 4, 1)), eps=0.05)
    np.testing.assert_allclose(q_BK.sum(1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(sinkhorn(f32(np.zeros((6, 4))), eps=0.05), 0.25)


def test_samples_that_do_not_count_change_no_other():
    scores_BK, counts_B = oracle.u(6, 4, 1), np.array([True, False, True, True, False, True])
    expected = oracle.sinkhorn(scores_BK[counts_B], 0.05)
    q_BK = sinkhorn(f32(scores_BK), eps=0.05, counts_B=counts_B)
    np.testing.assert_allclose(q_BK[counts_B], expected, rtol=1e-4, atol=1e-6)
    q_BK = sinkhorn(f32(scores_BK), eps=0.05, counts_B=np.zeros(6, bool))
    np.testing.assert_allclose(q_BK.sum(1), 1.0, rtol=1e-6)


@pytest.mark.parametrize(("queue", "value"), [(None, 6.267289072), (GOLDEN_QUEUE, 5.296403924)])
def test_golden_values(queue, value):
    whole = {"prototypes": PROTOTYPES} | ({} if queue is None else {"queue": queue})
    np.testing.assert_allclose(LOSS.value(GOLDEN, f32(whole), SETTINGS), value, rtol=2e-6)


def test_a_queue_is_ignored_until_it_is_full():
    """Also if it is one row short, and each queue on its own."""
    short = GOLDEN_QUEUE.copy()
    short[:, -1] = 0.0
    half = np.stack([GOLDEN_QUEUE[0], short[1]])
    values = [
        LOSS.value(GOLDEN, f32({"prototypes": PROTOTYPES, "queue": queue}), SETTINGS)
        for queue in (short, half)
    ]
    np.testing.assert_allclose(values[0], 6.267289072, rtol=2e-6)
    assert abs(values[1] - 6.267289072) > 0.1 < abs(values[1] - 5.296403924)


@pytest.mark.parametrize("devices", DEVICES)
def test_value_and_gradient_on_devices(devices):
    """Assignments are constants of the reference, and are made from all devices' rows."""
    targets = assigned(*f64((BATCH, WHOLE)))
    reference = functools.partial(of_targets, targets)
    LOSS.check(devices, reference, ("queue",), BATCH, WHOLE, SETTINGS)


def test_assignments_carry_no_gradient():
    """With their part it would be another one."""
    _, (slopes, _) = LOSS.on(1)(BATCH, WHOLE, SETTINGS)
    batch, whole = f64((BATCH, WHOLE))

    def through_assignments(z):
        return of_targets(assigned({"z": z}, whole), {"z": z}, whole, {"temperature": 0.1})

    other = oracle.gradient(through_assignments, batch["z"])
    assert np.abs(slopes["z"] - other).max() > 0.2 * np.abs(slopes["z"]).max()
    of_scores = jax.jit(jax.grad(lambda x: swav.sinkhorn(x, eps=0.05)[0, 0]))(f32(np.eye(4)))
    np.testing.assert_array_equal(of_scores, 0.0)


def test_bfloat16():
    LOSS.check_bfloat16(BATCH, WHOLE, SETTINGS)


def test_new_values_do_not_compile():
    LOSS.check_compiled_once(BATCH, WHOLE, SETTINGS)


@pytest.mark.parametrize("scale", [1e4, 1e30, 1e-30])
def test_length_does_not_matter(scale):
    value = LOSS.finite({"z": scale * BATCH["z"]}, WHOLE, SETTINGS)
    np.testing.assert_allclose(value, LOSS.on(1)(BATCH, WHOLE, SETTINGS)[0], rtol=1e-5)


def test_zero_vectors_give_the_chance_level():
    empty = {**WHOLE, "queue": np.zeros_like(WHOLE["queue"])}
    value = LOSS.finite({"z": np.zeros_like(BATCH["z"])}, empty, SETTINGS)
    np.testing.assert_allclose(value, np.log(5), rtol=1e-6)
    LOSS.finite({"z": replaced(BATCH["z"], np.s_[2], 0.0)}, WHOLE, SETTINGS)


@pytest.mark.parametrize("scale", [1e4, -1e4])
def test_extreme_scores(scale):
    """Prototypes that are no unit rows, by mistake."""
    whole = {**WHOLE, "prototypes": scale * WHOLE["prototypes"]}
    assert LOSS.finite(BATCH, whole, SETTINGS) > 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"assign": (0, 3)}, r"own=\(0, 3\)"),
        ({"queue_AQD": np.zeros((1, 6, 4))}, "1 queues for the 2 crops"),
    ],
)
def test_crops_and_queues_that_do_not_fit_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        jax.eval_shape(lambda z: swav.swap_loss(z, PROTOTYPES, **options), np.zeros((3, 2, 4)))
