"""The spine's promises: independence, one result on any mesh, one compilation, exact repetition."""

import collections
import dataclasses
import re
from dataclasses import dataclass

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax import agents, build, keys, sharding
from socialjepa_jax.data import order
from socialjepa_jax.data.augment import Augment, augment
from socialjepa_jax.data.augment.colour import normalize
from socialjepa_jax.data.protocols import Opening
from socialjepa_jax.data.resident import ResidentFeed
from socialjepa_jax.data.streaming import StreamedWindow
from socialjepa_jax.errors import InputError
from socialjepa_jax.experimental.exact import ExactTrainer
from socialjepa_jax.keys import Stream
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.optim import AdamW, Group

CAMERAS, SEEDS = (0, 1), (3, 4)
STATES, SIDE = 48, 8
TRAIN_ROWS = np.arange(0, STATES, 2) + 1


@dataclass(frozen=True)
class MaskedLinear:
    """The smallest objective with all moving parts: noise per sample, EMA target, global mean."""

    dim: int = 6

    def init(self, key):
        params = {"kernel": 0.1 * jax.random.normal(key, (SIDE * SIDE, self.dim))}
        return params, params

    def loss(self, params, aux, batch, key, hparams, reduce):
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, batch["index"])
        pixels = batch["image"].reshape(len(batch["image"]), -1)
        mask = jax.vmap(lambda k: jax.random.bernoulli(k, 0.5, pixels.shape[1:]))(keys)
        target = pixels[:, : self.dim] + 0.1 * jax.lax.stop_gradient(pixels @ aux["kernel"])
        error = (pixels * mask) @ params["kernel"] - target
        spread = reduce.mean(jnp.square(pixels @ params["kernel"])).mean()
        loss = reduce.mean(jnp.square(error).sum(-1)) + jnp.square(1.0 - spread)
        return loss, (aux, {"spread": spread})

    def after_update(self, params, aux, step, hparams):
        return jax.tree.map(lambda a, p: 0.9 * a + 0.1 * p, aux, params)

    def encode(self, params, aux, images):
        z = images.reshape(len(images), -1) @ params["kernel"]
        return {"latent": z, "tokens": z[:, None]}


def make(
    devices=1, agent_map="map", steps_per_call=4, objective=None, max_skips=0, exact_shards=0,
    gradient_sums="float32",
):  # fmt: skip
    mesh = sharding.make_mesh(len(SEEDS), 8, jax.devices()[:devices])
    exact = {"shards": exact_shards} if exact_shards else {}
    return (ExactTrainer if exact_shards else agents.Trainer)(
        objective=objective or MaskedLinear(),
        optimizer=AdamW(learning_rate=1e-2),
        total_steps=20,
        batch_size=8,
        steps_per_call=steps_per_call,
        mesh=mesh,
        agent_map=agent_map,
        max_skips=max_skips,
        gradient_sums=gradient_sums,
        **exact,
    )


def pictures(noise_for=None):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2, STATES, SIDE, SIDE, 1), dtype=np.uint8)
    if noise_for is not None:
        images[noise_for] = np.random.default_rng(9).integers(0, 99, images[0].shape)
    return images


AUGMENTATION = Augment(flip=True)


def open_feed(trainer, images=None):
    opening = Opening(
        cameras=CAMERAS,
        train_rows=TRAIN_ROWS,
        augmentation=AUGMENTATION,
        mesh=trainer.mesh,
        seeds=jnp.asarray(SEEDS, jnp.uint32),
        batch_size=8,
        steps_per_call=trainer.steps_per_call,
        total_steps=20,
        chunk=5,
        workdir=None,
        cache=None,
    )
    return ResidentFeed(pictures() if images is None else images, opening)


def source_of(trainer, images=None):
    return open_feed(trainer, images).at(0)


def hparams(seeds=SEEDS):
    return build.make_hparams(seeds, 20)


def order_key(seed):
    return keys.agent_key(jnp.uint32(seed), Stream.ORDER)


def run(trainer, images=None, steps=20, state=None, seeds=SEEDS):
    data = source_of(trainer, images)
    settings = hparams(seeds)
    state = trainer.init(settings) if state is None else state
    losses = []
    for _ in range(steps // trainer.steps_per_call):
        state, metrics = trainer.step(state, data, settings)
        losses.append(metrics["loss"])
    return jax.device_get(state), np.concatenate(losses, axis=1), data


@pytest.fixture(scope="module")
def trainer():
    """The program on one device, compiled once for the module."""
    return make()


@pytest.fixture(scope="module")
def straight(trainer):
    """Its run of 20 steps: (state, losses [A, 20], data)."""
    return run(trainer)


def agent(tree, k):
    return jax.tree.map(lambda x: x[k], tree)


def test_training_lowers_the_loss(straight):
    _, losses, _ = straight
    assert losses.shape == (2, 20)
    assert (losses[:, -5:].mean(axis=1) < losses[:, :5].mean(axis=1)).all()


@pytest.mark.parametrize(("agent_map", "tolerance"), [("map", 0.0), ("vmap", 1e-6)])
def test_an_agent_does_not_feel_what_its_neighbour_sees(trainer, agent_map, tolerance):
    program = trainer if agent_map == "map" else make(agent_map=agent_map)
    own, _, _ = run(program)
    beside_noise, _, _ = run(program, images=pictures(noise_for=1))
    chex.assert_trees_all_close(agent(own, 0), agent(beside_noise, 0), atol=tolerance, rtol=0)
    different = jnp.abs(own.params["kernel"][1] - beside_noise.params["kernel"][1]).max()
    assert different > 1e-3  # the neighbour itself did change


def test_agents_differ_in_start_masks_and_order(trainer):
    images = pictures()
    images[1] = images[0]  # even on the same camera
    _, losses, _ = run(trainer, images=images, steps=4)
    start = trainer.init(hparams())
    assert jnp.abs(start.params["kernel"][0] - start.params["kernel"][1]).max() > 1e-2
    assert np.abs(losses[0] - losses[1]).min() > 1e-6
    orders = [order.batch_rows(order_key(s), 0, 24, 8) for s in SEEDS]
    assert (orders[0] != orders[1]).any()


def test_training_never_touches_a_held_out_state(trainer, straight):
    images = pictures()
    images[:, np.setdiff1d(np.arange(STATES), TRAIN_ROWS)] = 0
    # Only pixel statistics could carry them over, and those are of the training rows alone.
    blind, _, _ = run(trainer, images=images)
    chex.assert_trees_all_equal(straight[0].params, blind.params)


@pytest.mark.parametrize("devices", [2, 8])  # two agents side by side; each over four devices
def test_any_mesh_gives_the_same_run(straight, devices):
    assert len(jax.devices()) >= 8
    one, losses_one, _ = straight
    many, losses_many, _ = run(make(devices=devices))
    np.testing.assert_allclose(losses_many, losses_one, rtol=1e-5)
    chex.assert_trees_all_close(many.params, one.params, atol=1e-6, rtol=0)


def test_gradients_may_be_summed_in_bfloat16(straight):
    """Each of 20 Adam steps of at most 0.01 is off by a few roundings of 2^-8."""
    one, losses_one, _ = straight
    many, losses_many, _ = run(make(devices=8, gradient_sums="bfloat16"))
    error = np.abs(many.params["kernel"] - one.params["kernel"]).max()
    assert 1e-5 < error < 20 * 0.01 * 4 * 2**-8
    np.testing.assert_allclose(losses_many, losses_one, rtol=1e-2)
    alone, losses_alone, _ = run(make(devices=2, gradient_sums="bfloat16"))  # nothing to sum
    np.testing.assert_allclose(losses_alone, losses_one, rtol=1e-5)
    chex.assert_trees_all_close(alone.params, one.params, atol=1e-6, rtol=0)


def test_gpus_sum_gradients_beside_other_work(monkeypatch):
    assert make(devices=8).compiler_options is None  # on CPUs
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    spread = make(devices=8)
    assert spread.compiler_options == agents.OVERLAP["gpu"]
    assert dataclasses.replace(spread, overlap_sums=False).compiler_options is None
    assert make(devices=2).compiler_options is None  # an agent on each, and nothing to sum


def test_a_state_is_sharded_as_a_restored_one(trainer):
    """Otherwise the first restart of a run would compile its step anew."""
    data = source_of(trainer)
    fresh = trainer.init(hparams())
    specs = {leaf.sharding.spec for leaf in jax.tree.leaves(fresh)}
    state, _ = trainer.step(fresh, data, hparams())
    specs |= {leaf.sharding.spec for leaf in jax.tree.leaves(state)}
    assert specs == {sharding.by_agent(trainer.mesh).spec}
    compiled = trainer.step._cache_size()
    trainer.step(state, data, hparams())
    assert trainer.step._cache_size() == compiled


@pytest.mark.nightly
def test_exact_sums_give_the_same_bits_on_any_mesh(straight):
    one, losses_one, _ = run(make(exact_shards=4))
    for devices, steps_per_call in ((2, 4), (8, 1)):  # agents side by side; each over four devices
        program = make(devices=devices, steps_per_call=steps_per_call, exact_shards=4)
        many, losses_many, _ = run(program)
        chex.assert_trees_all_equal(many, one)
        np.testing.assert_array_equal(losses_many, losses_one)
    np.testing.assert_allclose(losses_one, straight[1], rtol=1e-5)
    chex.assert_trees_all_close(one.params, straight[0].params, atol=1e-6, rtol=0)


@pytest.mark.nightly
def test_exact_sums_of_streamed_batches_are_those_of_resident_ones():
    program = make(devices=8, steps_per_call=1, exact_shards=4)
    expected, losses, data = run(program, steps=1)
    rows = [TRAIN_ROWS[order.batch_rows(order_key(seed), 0, len(TRAIN_ROWS), 8)] for seed in SEEDS]
    images = np.stack([pictures()[k][rows[k]] for k in range(2)])
    by_batch, rows = sharding.by_batch(program.mesh), np.stack(rows).astype(np.int32)
    streamed = StreamedWindow(
        images=jax.device_put(images[:, None], by_batch),
        rows=jax.device_put(rows[:, None], by_batch),
        first=jnp.zeros(2, jnp.int32),
        mean=data.mean,
        std=data.std,
        augmentation=AUGMENTATION,
    )
    state, metrics = program.step(program.init(hparams()), streamed, hparams())
    chex.assert_trees_all_equal(jax.device_get(state), expected)
    np.testing.assert_array_equal(metrics["loss"], losses)
    # Adam and clipping hide the size of a gradient from the parameters.
    plain = make(devices=8, steps_per_call=1)
    _, theirs = plain.step(plain.init(hparams()), data, hparams())
    np.testing.assert_allclose(metrics["grad_norm"], theirs["grad_norm"], rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agent_map": "vmap", "exact_shards": 4}, "shards=4 needs agent_map='map'"),
        ({"exact_shards": 3}, "batch_size=8 must be a multiple of 3"),
        ({"devices": 8, "exact_shards": 2}, "shards=2 cannot be shared out by 4 devices"),
    ],
)
def test_exact_sums_that_cannot_be_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        make(**changes)


@pytest.mark.parametrize("version", [(0, 10, 2), (0, 12, 0)])
def test_exact_sums_that_would_crash_the_compiler_are_refused(version, monkeypatch):
    monkeypatch.setattr(jax, "__version_info__", version)
    low = IJepa(vit=ViTConfig(dtype="bfloat16"))
    if version < (0, 12):
        with pytest.raises(InputError, match="shards=4 needs dtype='float32' on CPUs"):
            make(objective=low, exact_shards=4)
    else:
        make(objective=low, exact_shards=4)
    make(objective=IJepa(), exact_shards=4)


def test_sharded_step_equals_the_objective_by_hand():
    """One step against plain jax.grad on the whole batch: no mesh, no map, no scan."""
    trainer = make(devices=8, steps_per_call=1)
    settings = hparams()
    start = jax.device_get(trainer.init(settings))
    after, losses, data = run(trainer, steps=1)
    for k in range(2):
        params, aux, seed = agent(start.params, k), agent(start.aux, k), settings["seed"][k]
        rows = order.batch_rows(keys.agent_key(seed, Stream.ORDER), 0, len(TRAIN_ROWS), 8)
        rows = data.rows[k][rows]
        step_key = jax.random.fold_in(keys.agent_key(seed, Stream.STEP), 0)
        key, augment_key = jax.random.split(step_key)
        keys_B = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(augment_key, rows)
        pictures_B = augment(data.images[k][rows] / 255.0, keys_B, AUGMENTATION)
        images = normalize(pictures_B, data.mean[k], data.std[k])
        (loss, _), grads = jax.value_and_grad(trainer.objective.loss, has_aux=True)(
            params, aux, {"image": images, "index": rows}, key, {}, sharding.Reduce()
        )
        np.testing.assert_allclose(losses[k, 0], loss, rtol=1e-5)
        rate, decay = trainer.optimizer.schedules(20)
        expected, _ = trainer.optimizer.update(
            grads, trainer.optimizer.init(params), params, rate(1), decay(1)
        )
        chex.assert_trees_all_close(agent(after.params, k), expected, atol=1e-6)


def test_steps_per_call_changes_nothing(straight):
    ten, losses_ten, _ = run(make(steps_per_call=10))
    chex.assert_trees_all_equal(straight[0], ten)
    np.testing.assert_array_equal(straight[1], losses_ten)


def test_stopping_and_going_on_is_the_same_run(trainer, straight):
    half, _, _ = run(trainer, steps=8)
    resumed, _, _ = run(trainer, steps=12, state=jax.device_put(half))
    chex.assert_trees_all_equal(straight[0], resumed)


def test_the_step_is_traced_once():
    traces = []

    class Counted(MaskedLinear):
        def loss(self, *args):
            traces.append(1)
            return super().loss(*args)

    program = make(objective=Counted())
    state, _, _ = run(program, steps=4)
    first = len(traces)
    assert first > 0
    state = jax.device_put(state, sharding.by_agent(program.mesh))
    run(program, steps=12, state=state)
    assert len(traces) == first


def test_encode_returns_latents_in_order_and_drops_token_maps(straight):
    trainer = make(devices=2)
    state, _, data = straight
    rows = np.array([5, 0, 7])
    state = jax.device_put(state, sharding.by_agent(trainer.mesh))
    arrays = np.asarray(data.images)[:, rows], np.asarray(data.mean), np.asarray(data.std)
    latents = trainer.encode(state, *arrays)
    assert latents.shape == (2, 3, 6)
    outputs = trainer.encode_all(state, *arrays)
    assert set(outputs) == {"latent"}  # the token maps are left out
    np.testing.assert_array_equal(outputs["latent"], latents)
    images = normalize(data.images[1][rows] / 255.0, data.mean[1], data.std[1])
    np.testing.assert_allclose(
        latents[1], images.reshape(3, -1) @ np.asarray(state.params["kernel"][1]), atol=1e-5
    )


def test_mesh_refuses_what_cannot_be_split():
    with pytest.raises(ValueError, match="batch_size=6"):
        sharding.make_mesh(1, 6, jax.devices()[:4])
    assert sharding.make_mesh(6, 4, jax.devices()[:4]).shape == {"agent": 2, "data": 2}


def test_reduce_is_the_identity_of_one_device():
    x = jnp.arange(6.0).reshape(3, 2)
    reduce = sharding.Reduce()
    np.testing.assert_allclose(reduce.mean(x), [2.0, 3.0])
    np.testing.assert_allclose(reduce.sum(x), [6.0, 9.0])
    assert reduce.gather(x) is x


def test_trainer_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().batch_size = 3


@dataclass(frozen=True)
class Poisoned(MaskedLinear):
    """Not finite whenever the batch holds a state from hparams['poison'] on: value or gradient."""

    part: str = "loss"

    def loss(self, params, aux, batch, key, hparams, reduce):
        loss, (aux, metrics) = super().loss(params, aux, batch, key, hparams, reduce)
        hit = reduce.sum((batch["index"] >= hparams["poison"]).astype(jnp.float32)) > 0
        if self.part == "loss":
            return jnp.where(hit, jnp.nan, loss), (aux, metrics)
        # The root of a zero that depends on the parameters: value 0, gradient 0 * inf.
        return loss + jnp.sqrt(jnp.where(hit, 0.0 * params["kernel"].sum(), 1.0)), (aux, metrics)


NEVER, ALWAYS, RARELY = STATES, 0, STATES - 1  # the last training state is one batch in three


def poisoned(program, first, second, state=None, steps=9):
    settings = {**hparams(), "poison": jnp.asarray((first, second), jnp.int32)}
    data = source_of(program)
    state = program.init(settings) if state is None else jax.device_put(state)
    for _ in range(steps // program.steps_per_call):
        state, _ = program.step(state, data, settings)
    return jax.device_get(state)


def is_poisoned(step):
    rows = order.batch_rows(order_key(SEEDS[0]), step, len(TRAIN_ROWS), 8)
    return RARELY in TRAIN_ROWS[rows]


@pytest.mark.parametrize("part", [pytest.param("loss", marks=pytest.mark.nightly), "gradient"])
def test_a_bad_update_is_as_if_it_had_not_been_made(part):
    program = make(objective=Poisoned(part=part), steps_per_call=1, max_skips=2)
    found = poisoned(program, RARELY, NEVER)
    expected = jax.device_get(program.init({**hparams(), "poison": jnp.zeros(2, jnp.int32)}))
    for step in range(9):
        after = poisoned(program, NEVER, NEVER, expected, steps=1)
        if is_poisoned(step):  # the first agent stays as it is, the second does not notice
            kept = jax.tree.map(lambda new, old: np.stack([old[0], new[1]]), after, expected)
            after = dataclasses.replace(kept, step=after.step)
        expected = after
    for name in ("step", "params", "aux", "opt_state"):
        chex.assert_trees_all_equal(getattr(found, name), getattr(expected, name))
    bad = [is_poisoned(step) for step in range(9)]
    assert 0 < sum(bad) < 9 and found.skipped.tolist() == [sum(bad), 0]
    assert found.in_a_row.tolist() == [int(bad[-1]), 0]


def test_all_shards_skip_alike():
    """The bad state lies in the part of one of the four devices."""
    one = poisoned(make(objective=Poisoned(), max_skips=2), RARELY, NEVER, steps=12)
    many = poisoned(make(devices=8, objective=Poisoned(), max_skips=2), RARELY, NEVER, steps=12)
    assert one.skipped.tolist() == many.skipped.tolist() and one.skipped[0] > 0
    chex.assert_trees_all_close(one.params, many.params, atol=1e-6, rtol=0)


def test_after_too_many_skips_an_agent_stays_as_it_is():
    program = make(objective=Poisoned(), max_skips=4)
    start = jax.device_get(program.init(hparams()))
    spoilt = poisoned(program, ALWAYS, NEVER, steps=4)
    after = poisoned(program, NEVER, NEVER, spoilt, steps=4)  # though all would be well again
    chex.assert_trees_all_equal(agent(after.params, 0), agent(start.params, 0))
    assert np.abs(agent(after.params, 1)["kernel"] - agent(start.params, 1)["kernel"]).max() > 1e-4
    assert after.in_a_row.tolist() == [8, 0] and after.step.tolist() == [8, 8]


def test_the_guard_changes_nothing_where_all_is_finite(straight):
    guarded, losses, _ = run(make(max_skips=3))
    np.testing.assert_allclose(losses, straight[1], rtol=1e-5)
    chex.assert_trees_all_close(guarded, straight[0], atol=1e-6, rtol=0)
    assert not guarded.skipped.any()


def test_batches_that_are_passed_over_are_never_drawn(trainer, straight):
    start = jax.device_get(trainer.init(hparams()))
    later = dataclasses.replace(start, step=start.step + 5)
    past = dataclasses.replace(start, passed_over=start.passed_over + 5)
    _, losses, _ = run(trainer, steps=4, state=jax.device_put(later))
    _, found, _ = run(trainer, steps=4, state=jax.device_put(past))
    np.testing.assert_array_equal(found[:, 0], losses[:, 0])  # same draws, same parameters
    assert (found[:, 0] != straight[1][:, 0]).all()


def lowered(objective):
    """How often each operation occurs in the program of a step before optimisation."""
    trainer = make(objective=objective)
    settings = hparams()
    state = jax.eval_shape(trainer.init, settings)
    text = trainer.step.lower(state, source_of(trainer), settings).as_text()
    return collections.Counter(re.findall(r"stablehlo\.\w+", text))


@dataclass(frozen=True)
class Grouped(MaskedLinear):
    """The default treatment, spelt out; and a projection that changes nothing."""

    def groups(self, params):
        return {"kernel": Group()}

    def project(self, params):
        return params


def test_what_an_objective_does_not_use_costs_nothing():
    plain = lowered(MaskedLinear())
    assert lowered(Grouped()) == plain  # spelt out or not, the same operations

    class Projected(MaskedLinear):
        def project(self, params):
            return jax.tree.map(jnp.sin, params)

    sine = "stablehlo.sine"
    assert lowered(Projected())[sine] == plain[sine] + 1
