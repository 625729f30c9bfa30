"""Six agents of every rival on the one loop: two cameras, three seeds, resumed to the bit."""

import dataclasses

import chex
import jax
import numpy as np
import pytest

from configs import smoke
from experiments.rivals import methods
from socialjepa_jax import build, loop
from socialjepa_jax.config import from_config_dict, to_config_dict
from socialjepa_jax.running.checkpoint import Checkpoints
from socialjepa_jax.running.hooks import Progress
from tests.objectives import rivals_table as table

STEPS, HALF = 4, 2
BY_DAY = "swav"  # carries a queue, and projects its parameters
KINDS = [pytest.param(n, marks=() if n == BY_DAY else pytest.mark.nightly) for n in table.KINDS]


def small(name):
    chosen = from_config_dict(smoke.shrink(to_config_dict(methods.experiment(name, 25)), STEPS))
    if name == "swav":
        objective = dataclasses.replace(chosen.objective, queue=16, queue_start=0.0, frozen=0.5)
        chosen = dataclasses.replace(chosen, objective=objective)
    run = dataclasses.replace(chosen.run, steps_per_call=HALF, log_every=HALF, eval_every=STEPS,
                              save_every=HALF)  # fmt: skip
    return dataclasses.replace(chosen, run=run)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.nightly
def test_six_agents_of_one_program_resume_to_the_bit(name, tmp_path):
    experiment = small(name)
    dataset = experiment.data.load(tmp_path)
    parts = build.build(experiment)
    feed = build.open_feed(experiment, dataset, parts, tmp_path, tmp_path)
    folder, halves = tmp_path / "checkpoints", []

    def save(progress):
        halves.append(progress.step)
        if progress.step == HALF:
            with Checkpoints(folder, keep=1) as checkpoints:
                checkpoints.save(HALF, progress.state, {})

    straight = Progress(parts.fresh_state(), 0, STEPS)
    start = jax.device_get(straight.state.params)
    loop.run(parts.trainer.step, feed, parts.hparams, straight, HALF, (save,))
    assert halves == [0, HALF, STEPS]

    again = build.build(experiment)
    with Checkpoints(folder, keep=1) as checkpoints:
        resumed = Progress(checkpoints.restore(again.abstract_state), HALF, STEPS)
    loop.run(again.trainer.step, feed, again.hparams, resumed, HALF)
    end = jax.device_get(straight.state)
    chex.assert_trees_all_equal(jax.device_get(resumed.state), end)

    assert np.all(np.isfinite(straight.metrics["loss"]))
    for before, after in zip(
        jax.tree.leaves(start["encoder"]), jax.tree.leaves(end.params["encoder"])
    ):
        assert len(after) == 6 and np.isfinite(after).all()
        if np.ptp(before) > 0:  # drawn: every agent has its own
            assert len(np.unique(before.reshape(6, -1), axis=0)) == 6
            assert len(np.unique(after.reshape(6, -1), axis=0)) == 6
