"""The three forms of LARS, freezing and factors on the rate, against published single steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax import optim
from socialjepa_jax.errors import InputError

SETTINGS = {"learning_rate": 0.5, "warmup_fraction": 0.0, "start_fraction": 1.0,
            "final_fraction": 1.0, "weight_decay": 0.1, "final_weight_decay": 0.1}  # fmt: skip


def u(rows, columns, shift):
    i, j = np.arange(rows)[:, None], np.arange(columns)[None]
    return np.sin(shift + 0.9 * i + 1.7 * j + 0.31 * i * j)


def steps(optimizer, params, grads, groups=None, total=10, number=1):
    params = jax.tree.map(jnp.float32, params)
    state = optimizer.init(params)
    for step in range(number):
        params, state, rate = optimizer.apply(
            jax.tree.map(jnp.float32, grads), state, params,
            step=jnp.int32(step), total_steps=total, rate=jnp.float32(1.0), groups=groups,
        )  # fmt: skip
    return params, state, rate


@pytest.mark.parametrize(
    ("form", "row"),
    [
        ("outside", [0.840988878, 0.427616263, -0.951180880]),
        ("inside", [0.840988878, 0.427616263, -0.951180880]),
        ("larc", [0.841004789, 0.427608462, -0.951194781]),
    ],
)
def test_one_step_against_the_published_value(form, row):
    lars = optim.Lars(form=form, **SETTINGS)
    new, _, rate = steps(lars, {"kernel": u(2, 3, 1)}, {"kernel": u(2, 3, 2)})
    np.testing.assert_allclose(new["kernel"][0], row, rtol=2e-6)
    assert rate == 0.5


def reference(form, p, gradients, rates, decay=0.1, momentum=0.9, trust=1e-3):
    """Several steps in float64."""
    m = np.zeros_like(p)
    for g, rate in zip(gradients, rates):
        step = g + decay * p
        norm = np.linalg.norm(g) + decay * np.linalg.norm(p) + 1e-8
        ratio = np.linalg.norm(p) / (norm if form == "larc" else np.linalg.norm(step))
        if form == "inside":
            m = momentum * m + rate * trust * ratio * step
            p = p - m
        else:
            m = momentum * m + trust * ratio * step
            p = p - rate * m
    return p


@pytest.mark.parametrize("form", ["outside", "inside", "larc"])
def test_the_rate_stands_where_the_form_says(form):
    """With a rate that falls the forms differ from the second step on."""
    lars = optim.Lars(form=form, **SETTINGS | {"final_fraction": 0.0})
    p, g = u(2, 3, 1), u(2, 3, 2)
    rates = np.asarray(lars.schedules(5)[0](np.arange(1, 4)), np.float64)
    new, _, _ = steps(lars, {"kernel": p}, {"kernel": g}, total=5, number=3)
    np.testing.assert_allclose(new["kernel"], reference(form, p, [g] * 3, rates), rtol=2e-6)
    forms = [reference(f, p, [g] * 3, rates) for f in ("outside", "inside")]
    assert np.abs(forms[0] - forms[1]).max() > 1e-5


def test_biases_have_neither_decay_nor_ratio_but_in_larc():
    p, g = {"bias": u(1, 3, 1)[0]}, {"bias": u(1, 3, 2)[0]}
    plain, _, _ = steps(optim.Lars(**SETTINGS), p, g)
    np.testing.assert_allclose(plain["bias"], p["bias"] - 0.5 * g["bias"], rtol=1e-6)
    larc, _, _ = steps(optim.Lars(form="larc", **SETTINGS), p, g)
    expected = reference("larc", p["bias"], [g["bias"]], [0.5])
    np.testing.assert_allclose(larc["bias"], expected, rtol=1e-6)


@pytest.mark.parametrize("form", ["outside", "inside", "larc"])
def test_zero_norms_have_no_ratio(form):
    lars = optim.Lars(form=form, **SETTINGS)
    zeros, g = np.zeros((2, 3)), u(2, 3, 2)
    new, _, _ = steps(lars, {"kernel": zeros}, {"kernel": g})
    np.testing.assert_allclose(new["kernel"], -0.5 * g, rtol=1e-6)
    still, _, _ = steps(lars, {"kernel": g}, {"kernel": zeros})
    assert np.all(np.isfinite(still["kernel"]))


@pytest.mark.parametrize("optimizer", [optim.Lars(**SETTINGS), optim.AdamW(**SETTINGS)])
def test_a_parameter_that_was_frozen_begins_as_if_the_run_did(optimizer):
    """No momentum, no decay before; AdamW's bias is corrected by its own number of updates."""
    p, g = {"kernel": u(2, 3, 1)}, {"kernel": u(2, 3, 2)}
    late = {"kernel": optim.Group(frozen_share=0.3)}
    before, state, _ = steps(optimizer, p, g, late, number=3)
    np.testing.assert_array_equal(before["kernel"], np.float32(p["kernel"]))
    momenta = [x for x in jax.tree.leaves(state) if x.shape == (2, 3)]
    assert momenta and not any(np.any(x) for x in momenta)
    after, _, _ = steps(optimizer, p, g, late, number=4)
    first, _, _ = steps(optimizer, p, g, {"kernel": optim.Group()}, number=1)
    np.testing.assert_allclose(after["kernel"], first["kernel"], rtol=1e-6)


def test_a_parameter_without_rate_may_keep_its_moments():
    p, g = {"kernel": u(2, 3, 1)}, {"kernel": u(2, 3, 2)}
    group = {"kernel": optim.Group(frozen_until=3, keeps_moments=True)}
    new, state, _ = steps(optim.AdamW(), p, g, group, number=3)
    np.testing.assert_array_equal(new["kernel"], np.float32(p["kernel"]))
    assert np.all(np.asarray(state.mu["kernel"]) != 0.0)


def test_groups_have_rates_of_their_own():
    p, g = {"kernel": u(2, 3, 1)}, {"kernel": u(2, 3, 2)}
    for optimizer in (optim.Lars(**SETTINGS), optim.AdamW(**SETTINGS)):
        whole, _, _ = steps(optimizer, p, g, {"kernel": optim.Group()})
        tenth, _, _ = steps(optimizer, p, g, {"kernel": optim.Group(rate=0.1)})
        moved = [np.asarray(x["kernel"], np.float64) - p["kernel"] for x in (whole, tenth)]
        np.testing.assert_allclose(moved[1], 0.1 * moved[0], rtol=1e-3, atol=1e-7)


def test_the_schedule_of_dino():
    """100 epochs of 10 steps, 10 of warm-up: 5e-4 to 1e-6, and weight decay 0.04 to 0.4."""
    adamw = optim.AdamW(
        learning_rate=5e-4, final_fraction=1e-6 / 5e-4, warmup_fraction=0.1,
        weight_decay=0.04, final_weight_decay=0.4, schedule="dino",
    )  # fmt: skip
    rate, decay = adamw.schedules(1000)
    index = np.array([0, 1, 50, 99, 100, 101, 550, 999])
    expected = [
        0, 5.05050505e-6, 2.52525253e-4, 5e-4, 5e-4, 4.9999848e-4, 2.505e-4, 1.00152004e-6,
    ]  # fmt: skip
    np.testing.assert_allclose(rate(index + 1), expected, rtol=2e-5)
    decays = [0.04, 0.0400008883, 0.22, 0.399999112]
    np.testing.assert_allclose(decay(np.array([0, 1, 500, 999]) + 1), decays, rtol=1e-6)
    momentum = optim.cosine(0.996, 1.0, 1000)(np.array([0, 1, 500, 999]))
    np.testing.assert_allclose(momentum, [0.996, 0.99600000987, 0.998, 0.99999999013], rtol=1e-6)


@pytest.mark.parametrize(
    ("field", "value"),
    [("form", "apex"), ("momentum", 1.5), ("trust", 0.0), ("schedule", "moco"), ("kind", "sgd")],
)
def test_settings_that_cannot_work_are_refused(field, value):
    with pytest.raises(InputError, match=f"{field}={value!r}"):
        optim.Lars(**{field: value})
