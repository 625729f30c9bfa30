"""Schedules against the reference's values; AdamW against optax and by hand."""

import pathlib

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from socialjepa_jax import optim
from socialjepa_jax.errors import InputError

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "ijepa.npz"
STEPS = 187_500  # 300 epochs of 625 steps: the reference's ViT-H/14 run


def test_schedules_match_the_reference():
    golden = np.load(GOLDEN)
    index = golden["sched_step_index0"]
    adamw = optim.AdamW(
        learning_rate=1e-3,
        start_fraction=0.2,
        final_fraction=1e-3,
        warmup_fraction=40 / 300,
        weight_decay=0.04,
        final_weight_decay=0.4,
    )
    rate, decay = adamw.schedules(STEPS)
    np.testing.assert_allclose(rate(index + 1), golden["lr"], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(decay(index + 1), golden["wd"], rtol=1e-5)
    np.testing.assert_allclose(
        optim.linear(0.996, 1.0, STEPS)(index), golden["ema"], rtol=0, atol=1e-7
    )


def test_schedule_ends():
    for schedule in (optim.linear(2.0, 5.0, 10), optim.cosine(2.0, 5.0, 10)):
        np.testing.assert_allclose(schedule(jnp.array([0, 10, 99])), [2.0, 5.0, 5.0], rtol=1e-6)
    np.testing.assert_allclose(optim.cosine(0.0, 1.0, 8)(4), 0.5, atol=1e-6)
    assert optim.constant(3.0)(7) == 3.0


def _params():
    keys = jax.random.split(jax.random.key(0), 3)
    return {
        "kernel": jax.random.normal(keys[0], (3, 4)),
        "bias": jax.random.normal(keys[1], (4,)),
        "cls": jax.random.normal(keys[2], (2, 5)),
    }


def test_update_equals_optax_adamw():
    adamw = optim.AdamW(weight_decay=0.1, clip=0.5)
    reference = optax.chain(
        optax.clip_by_global_norm(0.5),
        optax.adamw(1e-2, 0.9, 0.95, 1e-8, weight_decay=0.1, mask=optim.decay_mask),
    )
    ours = theirs = _params()
    state, reference_state = adamw.init(ours), reference.init(theirs)
    for step in range(5):
        grads = jax.tree.map(lambda p, s=step: jnp.sin(3.0 * p + s), ours)
        ours, state = adamw.update(grads, state, ours, jnp.float32(1e-2), jnp.float32(0.1))
        updates, reference_state = reference.update(grads, reference_state, theirs)
        theirs = optax.apply_updates(theirs, updates)
    chex.assert_trees_all_close(ours, theirs, atol=1e-6)


def test_decay_acts_on_kernels_only():
    adamw, params = optim.AdamW(), _params()
    zero = jax.tree.map(jnp.zeros_like, params)
    new, _ = adamw.update(zero, adamw.init(params), params, jnp.float32(0.1), jnp.float32(0.5))
    np.testing.assert_allclose(new["kernel"], 0.95 * params["kernel"], rtol=1e-6)
    chex.assert_trees_all_equal(new["bias"], params["bias"])
    chex.assert_trees_all_equal(new["cls"], params["cls"])


@pytest.mark.parametrize(
    ("field", "value"),
    [("learning_rate", -1.0), ("learning_rate", float("nan")), ("weight_decay", -0.1),
     ("beta2", 1.5), ("beta1", 1.0), ("clip", 0.0), ("warmup_fraction", float("nan"))],
)  # fmt: skip
def test_impossible_settings_are_named(field, value):
    with pytest.raises(InputError, match=f"{field}={value}"):
        optim.AdamW(**{field: value})


def apply(adamw, groups, steps, params=None):
    """Parameters after some updates with gradients that depend on the step."""
    params = _params() if params is None else params
    state = adamw.init(params)
    for step in range(steps):
        grads = jax.tree.map(lambda p, s=step: 10 * jnp.sin(3.0 * p + s), params)
        params, state, _ = adamw.apply(
            grads, state, params, step=jnp.int32(step), total_steps=10, rate=1.0, groups=groups
        )
    return params, state


def test_groups_decide_what_decays():
    adamw = optim.AdamW(weight_decay=0.5, final_weight_decay=0.1)
    masked = {name: optim.Group(decays=name == "kernel") for name in _params()}
    chex.assert_trees_all_equal(apply(adamw, masked, 4), apply(adamw, None, 4))
    nothing = dict.fromkeys(_params(), optim.Group(decays=False))
    other, _ = apply(adamw, nothing, 4)
    assert np.abs(other["kernel"] - apply(adamw, None, 4)[0]["kernel"]).max() > 1e-4


def test_clip_groups_have_norms_of_their_own():
    adamw, params = optim.AdamW(clip=0.5), _params()
    grads = jax.tree.map(lambda p: 100.0 * p, params)
    groups = {name: optim.Group(clip=name) for name in params}
    clipped = optim.clip_by_group(grads, groups, adamw.clip)
    for name in params:
        norm = np.linalg.norm(np.asarray(grads[name], np.float64))
        expected = np.asarray(grads[name]) * 0.5 / norm
        np.testing.assert_allclose(clipped[name], expected, rtol=1e-6)
        np.testing.assert_allclose(jnp.linalg.norm(clipped[name]), 0.5, rtol=1e-6)
    together = optim.clip_by_group(grads, dict.fromkeys(params, optim.Group()), adamw.clip)
    norms = [jnp.linalg.norm(leaf) for leaf in together.values()]
    np.testing.assert_allclose(np.linalg.norm(norms), 0.5, rtol=1e-6)


def test_a_frozen_parameter_begins_to_move_at_its_step():
    groups = {name: optim.Group(frozen_until=3 if name == "cls" else 0) for name in _params()}
    start = _params()
    for steps, moves in ((3, False), (4, True)):
        after, state = apply(optim.AdamW(), groups, steps)
        assert bool((after["cls"] != start["cls"]).all()) == moves
        assert bool(np.any(state.mu["cls"])) == moves  # nor does it gather momentum before
        assert (after["kernel"] != start["kernel"]).all()


def test_parameters_need_not_be_dicts():
    assert optim.decay_mask([jnp.ones(2), {"kernel": jnp.ones(2)}]) == [False, {"kernel": True}]
    assert optim.decay_mask(jnp.ones(2)) is False
