"""Costs against closed forms, and crossings against curves whose answer is known."""

import dataclasses

import numpy as np
import pytest

from socialjepa_jax.collaboration import costs
from socialjepa_jax.errors import InputError
from socialjepa_jax.objectives.coupled import Classes, Crossed, Link, MutualClasses
from socialjepa_jax.performance import flops
from tests.objectives.coupled.frames import MIGRATION, MUTUAL, SINGLE

# Of an image: four patches of 8 pixels to 5 features, 20 to 6, 6 to 3.
FORWARD = 2 * (4 * 8 * 5 + 20 * 6 + 6 * 3)
BATCH = 16


def test_a_forward_pass_is_its_closed_form():
    assert costs.forward(SINGLE, BATCH) == BATCH * FORWARD


def test_a_single_model_pays_for_itself_alone():
    found = costs.of_step(SINGLE, BATCH)
    assert found.total == found.own == flops.step(SINGLE, BATCH)
    assert found.exchanged == 0
    # Two images, forward and twice that backward but for the gradient of pixels; and SIGReg.
    images = 2 * BATCH * (3 * FORWARD - 2 * 4 * 8 * 5)
    assert images <= found.total < 1.5 * images


def test_a_student_pays_for_the_teacher_and_for_the_pull():
    taught = MIGRATION.bind(SINGLE)
    found = costs.of_step(taught, BATCH)
    assert found.own == flops.step(SINGLE, BATCH)
    assert found.teacher == BATCH * FORWARD
    assert found.total == flops.step(taught, BATCH) + found.solves
    pull = BATCH * (3 * FORWARD - 2 * 4 * 8 * 5)  # the student's latents once more
    assert pull <= found.coupling < 1.5 * pull
    assert found.exchanged == BATCH * 3 * 4


def test_mutual_teaching_pays_twice():
    found = costs.of_step(MUTUAL, BATCH)
    assert found.own == 2 * flops.step(SINGLE, BATCH)
    assert found.teacher == 0
    assert found.total == flops.step(MUTUAL, BATCH) + found.solves
    assert found.exchanged == 2 * BATCH * 3 * 4
    wide = dataclasses.replace(SINGLE, outputs=6)
    wider = dataclasses.replace(MUTUAL, objective=wide)
    assert costs.of_step(wider, BATCH).coupling > found.coupling


def test_a_straight_curve_crosses_where_it_does():
    spent = np.array([0.0, 10.0, 20.0, 40.0])
    score = np.array([0.0, 0.5, 0.6, 0.8])
    assert costs.crossing(spent, score, 0.55) == pytest.approx(15.0)
    assert costs.crossing(spent, score, 0.8) == pytest.approx(40.0)
    assert costs.crossing(spent, score, -1.0) == 0.0
    assert costs.crossing(spent, score, 0.81) == np.inf


def test_noise_does_not_bring_the_crossing_forward():
    """The first passage of a noisy plateau below the threshold is a matter of looking often."""
    rng = np.random.default_rng(0)
    spent = np.arange(1.0, 401.0)
    truth = np.where(spent < 300, 0.5, 0.9)
    early = []
    for _ in range(20):
        score = truth + 0.1 * rng.normal(size=400)
        assert spent[np.argmax(score > 0.7)] < 250
        early.append(costs.crossing(spent, score, 0.7))
    assert np.abs(np.array(early) - 300).max() < 10


def test_the_fit_is_the_pool_of_adjacent_violators():
    spent = np.array([1.0, 2.0, 3.0, 4.0])
    score = np.array([0.2, 0.8, 0.4, 1.0])  # fitted: .2, .6, .6, 1.
    assert costs.crossing(spent, score, 0.6) == pytest.approx(2.0)
    assert costs.crossing(spent, score, 0.7) == pytest.approx(3.25)


def test_runs_that_never_arrive_count_with_the_limit():
    found = costs.restricted_mean(np.array([10.0, 20.0, np.inf]), 50.0)
    assert found.mean == pytest.approx((10 + 20 + 50) / 3)
    assert found.reached == pytest.approx(2 / 3)
    assert 10.0 <= found.low < found.mean < found.high <= 50.0
    alone = costs.restricted_mean(np.array([7.0]), 50.0)
    assert (alone.mean, alone.low, alone.high, alone.reached) == (7.0, 7.0, 7.0, 1.0)
    late = costs.restricted_mean(np.array([60.0, 10.0]), 50.0)
    assert (late.mean, late.reached) == (30.0, 0.5)


def test_the_interval_covers_the_mean():
    """Of 300 samples of 12 runs, 95 % of intervals hold the mean, less for so few runs."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(300):
        found = costs.restricted_mean(rng.normal(100, 10, 12), 1e9, draws=500)
        held += found.low <= 100 <= found.high
    assert 0.86 <= held / 300 <= 0.97


def test_the_threshold_is_a_share_of_final_scores():
    assert costs.threshold_of(np.array([0.8, 1.0])) == pytest.approx(0.855)
    assert costs.threshold_of(np.array([0.8, 1.0]), 0.9) == pytest.approx(0.81)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: costs.crossing(np.ones(3), np.ones(3), 0.5), "costs must increase"),
        (lambda: costs.crossing(np.arange(3.0), np.ones(2), 0.5), "must be one curve"),
        (lambda: costs.crossing(np.zeros(0), np.zeros(0), 0.5), "must be one curve"),
        (lambda: costs.restricted_mean(np.zeros(0), 1.0), "one or more runs"),
        (lambda: costs.restricted_mean(np.array([np.nan]), 1.0), "one or more runs"),
        (lambda: costs.restricted_mean(np.ones(2), 0.0), "limit=0"),
        (lambda: costs.threshold_of(np.ones(2), 1.5), "share=1.5"),
    ],
)
def test_refuses_what_is_no_curve(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_solves_are_those_of_two_regressions_between_refits():
    wide = dataclasses.replace(SINGLE, outputs=5)
    student = dataclasses.replace(MIGRATION, teacher_width=5).bind(wide)
    found = costs.of_step(student, BATCH)
    x, y, every = 3, 5, MIGRATION.link.every
    both = (x**3 + y**3) / 3 + 2 * x * x * y + 2 * y * y * x
    assert found.solves == pytest.approx(both / every)
    free = dataclasses.replace(MIGRATION, link=Link("identity")).bind(SINGLE)
    assert costs.of_step(free, BATCH).solves == 0.0
    assert costs.of_step(SINGLE, BATCH).solves == 0.0


def test_pairs_without_a_teacher_pay_for_the_second_camera():
    found = costs.of_step(Crossed(SINGLE), BATCH)
    assert (found.own, found.teacher, found.exchanged) == (flops.step(SINGLE, BATCH), 0.0, 0)
    both = 2 * BATCH * (3 * FORWARD - 2 * 4 * 8 * 5)  # latents of both cameras once more
    assert both <= found.coupling < 1.5 * both


def test_a_ratio_pairs_its_seeds_and_censors_both_sides():
    ours, alone = np.array([2.0, 4.0, np.inf]), np.array([4.0, 8.0, 20.0])
    found = costs.relative(ours, alone, (10.0, 20.0))
    assert found.mean == pytest.approx((2 + 4 + 10) / (4 + 8 + 20))
    assert found.reached == pytest.approx(2 / 3)
    # Every ratio is one half, so no resampling of seeds in pairs changes it.
    assert (found.low, found.high) == pytest.approx((0.5, 0.5))
    with pytest.raises(InputError, match="runs in pairs"):
        costs.relative(ours, alone[:2], (10.0, 20.0))


def test_classes_pay_for_heads_and_labels_alone_for_no_teacher():
    """A head of 3 features and 5 classes: forward, and twice that backward."""
    head = 2 * BATCH * 3 * 5
    pull = BATCH * (3 * FORWARD - 2 * 4 * 8 * 5) + 3 * head  # the student's latents once more
    for soft, teacher, sent in ((1.0, BATCH * FORWARD + head, 5), (0.0, 0.0, 0)):
        link = Classes(num_classes=5, soft=soft)
        found = costs.of_step(dataclasses.replace(MIGRATION, link=link).bind(SINGLE), BATCH)
        assert (found.own, found.teacher) == (flops.step(SINGLE, BATCH), teacher)
        assert (found.solves, found.exchanged) == (0.0, 4 * BATCH * sent)
        assert found.coupling == pull


def test_mutual_learning_pays_for_two_models_and_two_heads():
    found = costs.of_step(MutualClasses(SINGLE, num_classes=5), BATCH)
    assert (found.own, found.teacher) == (2 * flops.step(SINGLE, BATCH), 0.0)
    latents = BATCH * (3 * FORWARD - 2 * 4 * 8 * 5)
    assert found.coupling == 2 * (latents + 3 * 2 * BATCH * 3 * 5)
    assert found.exchanged == 2 * 4 * BATCH * 5
