"""The wiring of a step: what every part is told, in which order, and what is kept of it.

A recording objective writes its arguments into the state that it carries; a plain loop in NumPy,
with gradients of the loss alone, says what they must have been.
"""

import contextlib
import dataclasses
from dataclasses import dataclass

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from socialjepa_jax import agents, build, loop, sharding
from socialjepa_jax.data.protocols import ConstantFeed
from socialjepa_jax.optim import AdamW
from socialjepa_jax.running import hooks
from socialjepa_jax.running.hooks import Progress
from socialjepa_jax.running.monitors import SkipMonitor

SEEDS, BATCH, STEPS, WIDTH, DIM, ROWS = (3, 4), 8, 6, 5, 3, 20
LIMIT = 0.7  # of the projection
PASSED_OVER = (2, 0)  # draws of the first agent
OPTIMIZER = AdamW(
    learning_rate=0.05, weight_decay=0.3, final_weight_decay=0.05, warmup_fraction=0.5, clip=0.4
)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Table:
    """A source that reads the rows of a table f32[A, N, X] in order."""

    rows: jax.Array

    def specs(self):
        return Table(P(sharding.AGENT))

    def batch(self, step, seed, batch_size):
        index = sharding.own_rows((step * batch_size + jnp.arange(batch_size)) % self.rows.shape[0])
        return {"image": self.rows[index], "index": index}


@dataclass(frozen=True)
class Recorder:
    """Carries an EMA target, a centre and running statistics, and a log of its arguments."""

    def init(self, key):
        params = {"kernel": jax.random.normal(key, (WIDTH, DIM))}
        aux = {
            "target": jax.tree.map(jnp.copy, params),
            "centre": jnp.zeros(DIM),
            "statistics": (jnp.zeros(WIDTH), jnp.ones(WIDTH)),
            "told": {"loss": jnp.zeros((STEPS, 6)), "after": jnp.zeros((STEPS, 4))},
        }
        return params, aux

    def loss(self, params, aux, batch, key, hparams, reduce):
        x_BX = batch["image"]
        teacher_BD = x_BX @ jax.lax.stop_gradient(aux["target"]["kernel"]) - aux["centre"][None]
        noise = jax.random.normal(key, (DIM,))
        error_BD = x_BX @ params["kernel"] - jnp.tanh(teacher_BD) - 0.1 * noise[None]
        loss = hparams["scale"] * reduce.mean(jnp.square(error_BD).sum(-1))
        mean, square = reduce.mean(x_BX), reduce.mean(jnp.square(x_BX))
        said = [batch["step"], reduce.mean(batch["index"].astype(jnp.float32)), noise[0]]
        said += [params["kernel"].sum(), aux["target"]["kernel"].sum(), aux["centre"].sum()]
        aux = {
            **aux,
            "centre": 0.7 * aux["centre"] + 0.3 * reduce.mean(teacher_BD),
            "statistics": (0.9 * aux["statistics"][0] + 0.1 * mean,
                           0.9 * aux["statistics"][1] + 0.1 * square),
            "told": _noted(aux["told"], "loss", batch["step"], said),
        }  # fmt: skip
        return loss, (jax.lax.stop_gradient(aux), {"at": batch["step"].astype(jnp.float32)})

    def project(self, params):
        return jax.tree.map(lambda x: jnp.clip(x, -LIMIT, LIMIT), params)

    def after_update(self, params, aux, step, hparams):
        said = [step, params["kernel"].sum(), aux["centre"].sum(), hparams["scale"]]
        target = jax.tree.map(lambda t, p: 0.8 * t + 0.2 * p, aux["target"], params)
        return {**aux, "target": target, "told": _noted(aux["told"], "after", step, said)}

    def encode(self, params, aux, images):
        return {"latent": images @ params["kernel"]}


def _noted(told, name, step, values):
    row = jnp.stack([jnp.asarray(value, jnp.float32) for value in values])
    return {**told, name: told[name].at[step].set(row, mode="drop")}


def make(steps_per_call, devices=8, **fields):
    return agents.Trainer(
        objective=Recorder(),
        optimizer=OPTIMIZER,
        total_steps=STEPS,
        batch_size=BATCH,
        steps_per_call=steps_per_call,
        mesh=sharding.make_mesh(len(SEEDS), BATCH, jax.devices()[:devices]),
        agent_map="map",
        **fields,
    )


def table():
    spread = np.arange(1, WIDTH + 1)
    rows = np.random.default_rng(0).normal(size=(len(SEEDS), ROWS, WIDTH)) * spread - 0.5
    return Table(jnp.asarray(rows, jnp.float32))


def hparams():
    return build.make_hparams(SEEDS, STEPS, scale=(1.0, 0.5), learning_rate=(1.0, 2.0))


def start(trainer):
    state = jax.device_get(trainer.init(hparams()))
    return dataclasses.replace(state, passed_over=np.asarray(PASSED_OVER, np.int32))


def run(trainer):
    """Returns the last state, and the metrics [A, 6] of all calls."""
    state, found = jax.device_put(start(trainer), sharding.by_agent(trainer.mesh)), []
    for _ in range(STEPS // trainer.steps_per_call):
        state, metrics = trainer.step(state, table(), hparams())
        found.append(jax.device_get(metrics))
    return jax.device_get(state), jax.tree.map(lambda *x: np.concatenate(x, axis=1), *found)


def by_hand(k, params, aux):
    """Steps agent k in a plain loop: params, aux, moments, and the metrics of every step."""
    objective, settings = Recorder(), {name: v[k] for name, v in hparams().items()}
    rows, seed = np.asarray(table().rows[k]), jax.random.key(SEEDS[k])
    moments, lines = np.zeros((2, WIDTH, DIM)), []
    for step in range(STEPS):
        draw = step + PASSED_OVER[k]
        index = (draw * BATCH + np.arange(BATCH)) % ROWS
        batch = {"image": rows[index], "index": jnp.asarray(index), "step": jnp.int32(step)}
        key, _ = jax.random.split(jax.random.fold_in(jax.random.fold_in(seed, 2), draw))
        (loss, (aux, metrics)), grads = jax.value_and_grad(objective.loss, has_aux=True)(
            params, aux, batch, key, settings, sharding.Reduce()
        )
        gradient = np.asarray(grads["kernel"], np.float64)
        norm = np.linalg.norm(gradient)
        gradient = gradient * min(1.0, OPTIMIZER.clip / norm)
        count, share = step + 1, (step + 1 - 3) / 3  # 3 of the 6 steps are warm-up
        rate = 0.05 * (count / 3 if count < 3 else 0.5 * (1 + np.cos(np.pi * share)))
        rate = rate * (1.0, 2.0)[k]
        moments[0] = 0.9 * moments[0] + 0.1 * gradient
        moments[1] = 0.95 * moments[1] + 0.05 * gradient**2
        m, v = moments[0] / (1 - 0.9**count), moments[1] / (1 - 0.95**count)
        kernel = np.asarray(params["kernel"], np.float64)
        decay = 0.05 + 0.25 * 0.5 * (1 + np.cos(np.pi * count / STEPS))
        kernel = kernel - rate * (m / (np.sqrt(v) + OPTIMIZER.eps) + decay * kernel)
        params = {"kernel": jnp.asarray(np.clip(kernel, -LIMIT, LIMIT), jnp.float32)}
        aux = objective.after_update(params, aux, jnp.int32(step), settings)
        lines.append({**metrics, "loss": loss, "grad_norm": norm, "learning_rate": rate})
    return params, aux, moments, lines


@pytest.fixture(scope="module")
def stepped():
    return run(make(steps_per_call=1))


@pytest.mark.parametrize("k", range(len(SEEDS)))
def test_steps_are_those_of_a_plain_loop(stepped, k):
    state, metrics = stepped
    first = jax.tree.map(lambda x: jnp.asarray(x[k]), start(make(steps_per_call=1)))
    params, aux, moments, lines = by_hand(k, first.params, first.aux)
    found = jax.tree.map(lambda x: x[k], state)
    chex.assert_trees_all_close(found.params, params, rtol=1e-4, atol=1e-5)
    chex.assert_trees_all_close(found.aux, aux, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.opt_state.mu["kernel"], moments[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.opt_state.nu["kernel"], moments[1], rtol=1e-3, atol=1e-6)
    assert found.opt_state.count == found.step == STEPS and found.passed_over == PASSED_OVER[k]
    for name, values in metrics.items():
        np.testing.assert_allclose(values[k], [line[name] for line in lines], rtol=1e-4)
    sizes = [np.abs(tree["kernel"]).max() for tree in (found.params, first.params)]
    assert sizes[0] <= np.float32(LIMIT) < sizes[1]  # the projection is at work


def test_what_the_objective_is_told(stepped):
    told = stepped[0].aux["told"]
    for k in range(len(SEEDS)):
        loss, after = told["loss"][k], told["after"][k]
        np.testing.assert_array_equal(loss[:, 0], range(STEPS))  # updates so far
        np.testing.assert_array_equal(after[:, 0], range(STEPS))
        draws = np.arange(STEPS)[:, None] + PASSED_OVER[k]
        index = (draws * BATCH + np.arange(BATCH)) % ROWS
        np.testing.assert_allclose(loss[:, 1], index.mean(axis=1))
        assert len(set(loss[:, 2])) == STEPS  # a key of its own for every step
        # The target and the loss of a step see the parameters that the step before left behind.
        np.testing.assert_allclose(loss[1:, 3], after[:-1, 1], rtol=1e-5)
        np.testing.assert_allclose(loss[1:, 5], after[:-1, 2], rtol=1e-5)
        target = loss[0, 4]
        for step in range(STEPS - 1):
            target = 0.8 * target + 0.2 * after[step, 1]
            np.testing.assert_allclose(loss[step + 1, 4], target, rtol=1e-4)
        assert (after[:, 3] == (1.0, 0.5)[k]).all()
    assert (told["loss"][0, 2:, 2] != told["loss"][1, 2:, 2]).all()


@pytest.mark.parametrize("fields", [{"steps_per_call": 2}, {"steps_per_call": 6, "max_skips": 2}])
def test_several_steps_a_call_are_single_steps(stepped, fields):
    """Everything carried is the same, and the metrics come in the order of the steps."""
    state, metrics = run(make(**fields))
    # A loop of one step is compiled without a loop, and rounds otherwise.
    chex.assert_trees_all_close(state, stepped[0], rtol=1e-6, atol=1e-6)
    chex.assert_trees_all_close(metrics, stepped[1], rtol=1e-6, atol=1e-6)


class Lines:
    """A writer that keeps the lines of the log."""

    def __init__(self):
        self.lines = {}

    def write(self, step, kind, scalars):
        self.lines[step] = scalars

    def progress(self, step, losses, speeds):
        self.lines[step] |= losses


class Watch:
    """A stopwatch that stands still."""

    def lap(self, step):
        return 3, 1.0

    def paused(self):
        return contextlib.nullcontext()


def test_the_log_shows_the_last_step_of_every_call(stepped):
    trainer, writer = make(steps_per_call=3), Lines()
    log = hooks.Log(writer, Watch(), SkipMonitor(0), 3, 1, lambda rate: {}, lambda seconds: {})
    state = jax.device_put(start(trainer), sharding.by_agent(trainer.mesh))
    progress = Progress(state, 0, STEPS)
    loop.run(trainer.step, ConstantFeed(table()), hparams(), progress, 3, [log])
    assert list(writer.lines) == [3, 6]
    for step, line in writer.lines.items():
        for k in range(len(SEEDS)):
            for name in ("loss", "at", "grad_norm"):
                expected = stepped[1][name][k, step - 1]
                np.testing.assert_allclose(line[f"agent_{k}/{name}"], expected, rtol=1e-5)
            assert line[f"loss[{k}]"] == line[f"agent_{k}/loss"]
        np.testing.assert_allclose(line["learning_rate"], stepped[1]["learning_rate"][0, step - 1])
    rates = [line["learning_rate"] for line in writer.lines.values()]
    assert rates[0] != rates[1] and stepped[1]["learning_rate"][0, 0] not in rates


def test_the_same_initial_values_are_those_of_the_first_agent():
    parts = build.Parts(make(steps_per_call=1), hparams())
    own, same = (jax.device_get(parts.fresh_state(flag)) for flag in (False, True))
    for leaf, first in zip(jax.tree.leaves(same.params), jax.tree.leaves(own.params), strict=True):
        np.testing.assert_array_equal(leaf, np.stack([first[0]] * len(SEEDS)))
        assert np.abs(first[0] - first[1]).max() > 0.1
