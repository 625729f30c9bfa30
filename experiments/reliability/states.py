"""Checks of the training state: every part of it matters, and a skipped update leaves no trace."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from experiments.reliability import runs
from experiments.reliability.fixture import Figures, Fixture, last_line
from socialjepa_jax import build, keys, sharding
from socialjepa_jax.agents import AgentState
from socialjepa_jax.config import Monitors
from socialjepa_jax.data import order
from socialjepa_jax.running import storage


def _zeros(tree: Any) -> Any:
    return jax.tree.map(np.zeros_like, tree)


def _next_floats(tree: Any) -> Any:
    return jax.tree.map(lambda x: np.nextafter(x, np.float32(np.inf)), tree)


def _zero_in_adam(state: AgentState, field: str) -> dict[str, Any]:
    adam = state.opt_state
    return {"opt_state": adam._replace(**{field: _zeros(getattr(adam, field))})}


STATE_CHANGES: dict[str, Callable[[AgentState], dict[str, Any]]] = {
    "parameters: last bit": lambda s: {"params": _next_floats(s.params)},
    "EMA target: copied from the parameters": lambda s: {"aux": s.params},
    "first moment: zero": lambda s: _zero_in_adam(s, "mu"),
    "second moment: zero": lambda s: _zero_in_adam(s, "nu"),
    "Adam's count: zero": lambda s: _zero_in_adam(s, "count"),
    "step: one back": lambda s: {"step": s.step - 1},
    "skips: forgotten": lambda s: {"skipped": _zeros(s.skipped)},
    "skips in a row: at the limit": lambda s: {"in_a_row": s.in_a_row + 3},
    "batches passed over: one more": lambda s: {"passed_over": s.passed_over + 1},
}
"""Alterations of every part of a saved state: name -> fields to replace."""

HPARAM_CHANGES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "seed: another": lambda h: {"seed": h["seed"] + 1},
    "learning rate: half": lambda h: {"learning_rate": h["learning_rate"] * 0.5},
}


class _Stepper:
    """The compiled step of the fixture's run; batches with a state from `bad_from` on give NaN."""

    def __init__(self, fixture: Fixture, bad_from: int) -> None:
        self.experiment = dataclasses.replace(
            fixture.experiment,
            objective=runs.Linear(bad_from=bad_from),
            monitors=Monitors(max_skips=3),
        )
        parts = build.build(self.experiment)
        self.trainer, self.hparams = parts.trainer, parts.hparams
        self.dataset = self.experiment.data.load(fixture.folder)
        folder = fixture.folder
        feed = build.open_feed(self.experiment, self.dataset, parts, folder, folder)
        self.source = feed.at(0)

    def start(self) -> AgentState:
        """Returns the state of step 0, on the host."""
        return jax.device_get(self.trainer.init(self.hparams))

    def advance(self, state: AgentState, steps: int, hparams: Any = None) -> AgentState:
        """Returns the state some steps later, on the host."""
        state = sharding.put(state, sharding.by_agent(self.trainer.mesh))
        for _ in range(steps):
            state, _ = self.trainer.step(state, self.source, hparams or self.hparams)
        return jax.device_get(state)

    def draws(self, agent: int, step: int, row: int) -> bool:
        """True if the agent's batch of this step holds a row."""
        train = self.dataset.train_rows
        key = keys.agent_key(self.hparams["seed"][agent], keys.Stream.ORDER)
        batch = order.batch_rows(key, step, len(train), self.experiment.run.batch_size)
        return bool(row in train[np.asarray(batch)])


def _last_training_row(fixture: Fixture) -> int:
    """The last training state, which is in one batch of an epoch."""
    return int(fixture.experiment.data.load(fixture.folder).train_rows[-1])


def mutations(fixture: Fixture) -> Figures:
    """Alters each saved part in turn at step 8: the state of step 16 must differ."""
    stepper = _Stepper(fixture, bad_from=_last_training_row(fixture))
    half, hparams = stepper.advance(stepper.start(), 8), stepper.hparams

    def end(state: AgentState = half, **changes: Any) -> dict[str, str]:
        return storage.digests(stepper.advance(state, 8, {**hparams, **changes}))

    ends = {n: end(dataclasses.replace(half, **f(half))) for n, f in STATE_CHANGES.items()}
    ends |= {name: end(**change(hparams)) for name, change in HPARAM_CHANGES.items()}
    expected = end()
    unnoticed = [name for name, found in ends.items() if found == expected]
    if end() != expected:
        unnoticed.append("nothing altered")
    return Figures.of_cases(len(ends), unnoticed)


def skipped_batch(fixture: Fixture) -> Figures:
    """Runs 24 steps, some with NaN as their loss, and the same steps with these left out."""
    row = _last_training_row(fixture)
    bad, good = _Stepper(fixture, row), _Stepper(fixture, 1_000_000)
    found, expected = bad.advance(bad.start(), 24), good.start()
    for step in range(24):
        after = good.advance(expected, 1)
        keep = [good.draws(agent, step, row) for agent in range(2)]
        expected = dataclasses.replace(_choose(keep, expected, after), step=after.step)
    parts = ("params", "aux", "opt_state", "step")
    leaves = (jax.tree.leaves([getattr(s, part) for part in parts]) for s in (found, expected))
    difference = max(float(np.abs(a - b).max()) for a, b in zip(*leaves, strict=True))
    skips = int(found.skipped.sum())
    return Figures.of(skips=(skips, skips > 0), difference=(difference, difference == 0.0))


def _choose(keep: list[bool], old: AgentState, new: AgentState) -> AgentState:
    """Takes the old state of the agents that keep it and the new one of the others."""
    return jax.tree.map(
        lambda a, b: np.stack([x if k else y for k, x, y in zip(keep, a, b)]), old, new
    )


def stops_after_many(fixture: Fixture) -> Figures:
    """Runs with batches that are all bad: the run stops with code 3 and saves nothing."""
    experiment = dataclasses.replace(
        fixture.experiment, objective=runs.Linear(bad_from=0), monitors=Monitors(max_skips=3)
    )
    workdir = fixture.folder / "all_bad"
    code = fixture.children.finish(experiment, workdir)
    message, saved = last_line(workdir), runs.saved(workdir)
    return Figures.of(
        exit_code=(code, code == 3),
        message=(message, "not finite" in message),
        saved=(saved, not saved),
    )
