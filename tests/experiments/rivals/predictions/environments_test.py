"""The environments of the theory's predictions: what their agents see, and shuffled pairs."""

import types

import numpy as np
import pytest

from experiments.rivals.predictions import environments
from experiments.rivals.predictions.environments import (
    BROKEN,
    ENVIRONMENTS,
    MOVING,
    SAME,
    SHUFFLED,
    TOYS_ELSEWHERE,
    UNTRAINED,
)
from experiments.rivals.tables.trained import World
from socialjepa_jax.config import from_config_dict, to_config_dict
from socialjepa_jax.data.augment.shuffle import Shuffle
from socialjepa_jax.evaluation.splits import Split


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_changes_what_is_seen_alone(name, tmp_path):
    world = World("cpu", tmp_path)
    chosen, own = environments.experiment(world, name), world.experiment("ijepa", 12)
    if name != MOVING:  # its frames are images of one batch, which no configuration says
        assert from_config_dict(to_config_dict(chosen)) == chosen
    assert chosen.agents.seeds == own.agents.seeds[3:6]
    assert chosen.run.steps == own.run.steps
    assert chosen.optim == own.optim
    assert chosen.shuffle == BROKEN.get(name, Shuffle())
    seen = chosen.data.protocol.azimuths if name != MOVING else ()
    assert seen == {TOYS_ELSEWHERE: (160,), MOVING: ()}.get(name, (0, 160))
    assert (chosen.data == own.data) == (name in BROKEN)
    if name == MOVING:
        assert 2 * chosen.run.batch_size == own.run.batch_size
        assert chosen.data.image_size == own.data.image_size


def test_shuffled_pairs_stay_within_their_part_of_the_split(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(8, 60, 5)).astype(np.float32)
    split = Split("instance", np.arange(40), np.arange(40, 60))
    dataset = types.SimpleNamespace(state_ids=np.arange(60), instance_ids=np.arange(60) // 4)
    kept = types.SimpleNamespace(final=z, untrained=z[::-1])
    world = types.SimpleNamespace(
        scale="cpu", out=tmp_path, split=split, dataset=dataset, trained=lambda _: kept
    )
    monkeypatch.setattr(environments, "ENVIRONMENTS", ())
    seen = {}
    monkeypatch.setattr(environments, "_row", lambda _, name, x, y: seen.setdefault(name, (x, y)))
    monkeypatch.setattr(environments.findings, "kept", lambda _, make: make())
    environments.measured(world)
    (x, same), (_, shuffled) = seen[SAME], seen[SHUFFLED]
    np.testing.assert_array_equal(x, z[:3])
    np.testing.assert_array_equal(same, z[3:6])
    for rows in (split.train, split.test):
        assert not np.array_equal(shuffled[:, rows], same[:, rows])
        ours, theirs = (np.sort(each[:, rows], axis=1) for each in (shuffled, same))
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(seen[UNTRAINED][1], z[::-1][3:6])
