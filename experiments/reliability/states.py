"""Checks on the state itself: every part of it matters, and a skipped update leaves no trace."""

import dataclasses
from typing import Any

import jax
import numpy as np

from experiments.reliability import runs
from experiments.reliability.checks import Lab, Seen
from socialjepa_jax import agents, build, loop
from socialjepa_jax.agents import AgentState
from socialjepa_jax.config import Monitors
from socialjepa_jax.running import checkpoint


def _parts() -> dict[str, Any]:
    """Every part of what is saved, and how it is altered: name -> (state, hparams) -> both."""

    def state(**changes: Any) -> Any:
        def alter(s: AgentState, h: Any) -> tuple[AgentState, Any]:
            new = {name: change(s) for name, change in changes.items()}
            return dataclasses.replace(s, **new), h

        return alter

    def adam(**changes: Any) -> Any:
        def change(s: AgentState) -> Any:
            clip, moments = s.opt_state
            return clip, moments._replace(**{k: f(getattr(moments, k)) for k, f in changes.items()})

        return state(opt_state=change)

    def zeros(tree: Any) -> Any:
        return jax.tree.map(np.zeros_like, tree)

    def last_bit(tree: Any) -> Any:
        return jax.tree.map(lambda x: np.nextafter(x, np.float32(np.inf)), tree)

    return {
        "parameters: last bit": state(params=lambda s: last_bit(s.params)),
        "EMA target: copied from the parameters": state(aux=lambda s: s.params),
        "first moment: zero": adam(mu=zeros),
        "second moment: zero": adam(nu=zeros),
        "Adam's count: zero": adam(count=zeros),
        "step: one back": state(step=lambda s: s.step - 1),
        "skips: forgotten": state(skipped=lambda s: zeros(s.skipped)),
        "skips in a row: at the limit": state(in_a_row=lambda s: s.in_a_row + 3),
        "batches passed over: one more": state(passed_over=lambda s: s.passed_over + 1),
        "seed: another": lambda s, h: (s, {**h, "seed": h["seed"] + 1}),
        "length of the run": lambda s, h: (s, {**h, "learning_rate": h["learning_rate"] * 0.5}),
    }


class _Steps:
    """The compiled program of the run, some of whose batches are bad."""

    def __init__(self, lab: Lab, bad_from: int) -> None:
        objective = runs.Linear(bad_from=bad_from)
        self.experiment = dataclasses.replace(
            lab.experiment, objective=objective, monitors=Monitors(max_skips=3)
        )
        self.trainer = loop.make_trainer(self.experiment)
        self.dataset = self.experiment.data.load(lab.folder)
        self.data = build.place(self.experiment, self.dataset, self.trainer)
        self.hparams = loop.make_hparams(self.experiment)

    def start(self) -> AgentState:
        """The state of step 0, on the host."""
        return jax.device_get(self.trainer.init(self.hparams))

    def go(self, state: AgentState, steps: int, hparams: Any = None) -> AgentState:
        """Some steps on."""
        state = jax.device_put(state)
        for _ in range(steps):
            state, _ = self.trainer.step(state, self.data, hparams or self.hparams)
        return jax.device_get(state)


def mutations(lab: Lab) -> Seen:
    """Alters each saved part in turn at step 8; the state of step 16 must tell."""
    steps = _Steps(lab, bad_from=_rare_row(lab))
    half = steps.go(steps.start(), 8)
    whole = checkpoint.digests(steps.go(half, 8))
    missed = [] if checkpoint.digests(steps.go(half, 8)) == whole else ["nothing altered"]
    for name, alter in _parts().items():
        state, hparams = alter(half, steps.hparams)
        if checkpoint.digests(steps.go(state, 8, hparams)) == whole:
            missed.append(name)
    count = len(_parts())
    return f"{count - len(missed)} of {count} noticed {'; '.join(missed)}".strip(), not missed


def _rare_row(lab: Lab) -> int:
    """The last training state: bad in one batch of an epoch."""
    return int(lab.experiment.data.load(lab.folder).train_rows[-1])


def skipped_batch(lab: Lab) -> Seen:
    """A run with NaN at some steps against the run that leaves those updates out."""
    row = _rare_row(lab)
    bad, good = _Steps(lab, row), _Steps(lab, 1_000_000)
    found, expected = bad.go(bad.start(), 24), good.start()
    for step in range(24):
        after = good.go(expected, 1)
        keep = [_drawn(good, agent, step, row) for agent in range(2)]
        expected = dataclasses.replace(_choose(keep, expected, after), step=after.step)
    skips = int(found.skipped.sum())
    parts = ("params", "aux", "opt_state", "step")
    worst = max(
        float(np.abs(a - b).max())
        for part in parts
        for a, b in zip(*(jax.tree.leaves(getattr(s, part)) for s in (found, expected)))
    )
    return f"{skips} skips, largest difference {worst:g}", skips > 0 and worst == 0.0


def _choose(keep: list[bool], old: AgentState, new: AgentState) -> AgentState:
    """The old state of the agents that keep it, the new one of the others."""
    return jax.tree.map(
        lambda a, b: np.stack([x if k else y for k, x, y in zip(keep, a, b)]), old, new
    )


def _drawn(steps: _Steps, agent: int, step: int, row: int) -> bool:
    """Whether the agent's batch of this step holds a row."""
    train = steps.dataset.train_rows
    key = agents.agent_key(steps.hparams["seed"][agent], agents._ORDER)
    batch = agents.batch_rows(key, step, len(train), steps.experiment.run.batch_size)
    return bool(row in train[np.asarray(batch)])
