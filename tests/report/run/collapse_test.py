import dataclasses
import math

from socialjepa_jax.report.run import collapse
from socialjepa_jax.report.run.collapse import Health


def test_collapse_verdicts():
    def verdict(rankme, dim, spread, norm):
        return Health(rankme, dim, spread, 1.0, norm).verdict

    assert verdict(20.0, 32, 0.5, 5.0) == "healthy"
    assert verdict(1.5, 32, 0.5, 5.0) == "collapsed"
    assert verdict(20.0, 32, 1e-3, 5.0) == "collapsed"
    assert verdict(3.0, 32, 0.5, 5.0) == "low rank"
    assert verdict(3.0, math.nan, 0.5, 5.0) == "healthy"
    assert verdict(math.nan, 32, 0.5, 5.0) == "n/a"


def test_a_collapsed_agent_is_named(run):
    evals = [{**line, "agent_1/rankme": 1.0} for line in run.evals]
    text = collapse.collapse_monitors(dataclasses.replace(run, evals=evals))
    assert "Agent 1 (camera 1) is collapsed." in text and 'class="warning"' in text
    assert collapse.collapsed(dataclasses.replace(run, evals=evals)) == [1]


def test_a_healthy_run(run):
    assert collapse.collapsed(run) == []
    state = collapse.health(run, 2)
    assert (state.rankme, state.dim, state.latent_norm) == (20.0, 32, 7.0)
    assert (state.first_std, state.feature_std) == (0.54, 0.79)
    assert "All agents are healthy." in collapse.collapse_monitors(run)
