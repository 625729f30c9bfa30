"""The one rule of collapse, and the count of skipped updates."""

import logging

import numpy as np
import pytest

from socialjepa_jax.running import monitors


def test_the_rule_of_collapse():
    assert not monitors.has_collapsed(20.0, 0.5, 5.0)
    assert monitors.has_collapsed(1.9, 0.5, 5.0) and not monitors.has_collapsed(2.0, 0.5, 5.0)
    assert monitors.has_collapsed(20.0, 0.0049, 5.0)
    assert not monitors.has_collapsed(20.0, 0.0051, 5.0)
    assert monitors.has_collapsed(20.0, 0.0, 0.0)  # all zero


def test_skips_are_reported_once_and_stop_the_run(caplog):
    watcher = monitors.SkipMonitor(limit=3)
    with caplog.at_level(logging.WARNING, logger="absl"):
        watcher.watch(np.array([0, 0]), np.array([0, 0]), 10)
        assert not caplog.records
        watcher.watch(np.array([0, 2]), np.array([0, 2]), 20)
        watcher.watch(np.array([0, 2]), np.array([0, 0]), 30)
    assert len(caplog.records) == 1 and "agent_1: 2 updates up to step 20" in caplog.text
    with pytest.raises(monitors.Diverged, match="agent_1 is not finite, 3 updates in a row") as end:
        watcher.watch(np.array([1, 5]), np.array([1, 3]), 40)
    assert end.value.agents.tolist() == [False, True] and end.value.exit_code == 3


def test_an_evaluation_names_who_collapsed():
    scalars = {"agent_0/rankme": 1.0, "agent_0/feature_std": 1.0, "agent_0/latent_norm": 2.0,
               "agent_1/rankme": 9.0, "agent_1/feature_std": 1.0, "agent_1/latent_norm": 2.0,
               "pair_0_1/state/r2": 0.5}  # fmt: skip
    assert monitors.collapsed_agents(scalars) == ["agent_0"]
