"""From an experiment to its parts: the states that are trained on, and the seeds of agents."""

import dataclasses
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from configs import toys_ijepa
from socialjepa_jax import build, config
from socialjepa_jax.errors import InputError


@pytest.fixture(scope="module")
def experiment():
    return config.from_config_dict(toys_ijepa.get_config())


@pytest.mark.parametrize("which, rows", [("train", [1, 4, 5]), ("all", range(7))])
def test_held_out_states_are_trained_on_only_if_asked_for(which, rows):
    dataset = SimpleNamespace(train_rows=np.array([1, 4, 5]), num_states=7)
    some = SimpleNamespace(pretrain_on=which, run=SimpleNamespace(batch_size=3))
    np.testing.assert_array_equal(build.train_rows(some, dataset), rows)
    some.run.batch_size = len(rows) + 1
    with pytest.raises(InputError, match=f"batch_size={len(rows) + 1} is more than the"):
        build.train_rows(some, dataset)


def test_agents_of_two_repetitions_share_no_seed(experiment):
    """Not even where a repetition and an agent's seed add up to the same."""
    seen = set()
    for seed in range(3):
        agents = dataclasses.replace(experiment.agents, cameras=(0, 1, 0), seeds=(0, 1, 2))
        one = dataclasses.replace(experiment, seed=seed, agents=agents)
        parts = build.build(one, lambda **fields: SimpleNamespace(**fields), jax.devices()[:1])
        seen |= set(np.asarray(parts.hparams["seed"]).tolist())
    assert len(seen) == 9
