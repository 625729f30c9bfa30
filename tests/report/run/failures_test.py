import dataclasses
import math
import pathlib

import pytest

from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.report.run import failures, page

GUIDE = pathlib.Path(__file__).parents[3] / "docs" / "objectives.md"
LN_K = math.log(256)
CASES = [  # settings, metrics of a run that shows a sign and of one that does not, word of it
    ({"kind": "simclr"}, {"loss": 4.70, "chance": 4.84}, {"loss": 4.55, "chance": 4.84}, "random"),
    ({"kind": "moco"}, {"loss": 3.30, "chance": 3.33}, {"loss": 3.10, "chance": 3.33}, "random"),
    ({"kind": "swav", "prototypes": 256}, {"loss": 0.96 * LN_K}, {"loss": 0.94 * LN_K}, "alike"),
    ({"kind": "swav", "prototypes": 9}, {"outputs_used": 1.4}, {"outputs_used": 1.6}, "chosen"),
    (
        {"kind": "dino", "outputs": 256},
        {"target_entropy": 0.96 * LN_K},
        {"target_entropy": 0.94 * LN_K},
        "uniform",
    ),
    ({"kind": "ibot", "outputs": 9}, {"outputs_used": 1.0}, {"outputs_used": 9.0}, "one answer"),
    (
        {"kind": "barlow", "projector_dim": 128},
        {"invariance": 125.0},
        {"invariance": 100.0},
        "correlate",
    ),
    ({"kind": "autoencoder"}, {"explained": -0.2}, {"explained": 0.3}, "mean image"),
]


def with_metrics(run, settings, *of_agents):
    line = {f"agent_{k}/{name}": v for k, of in enumerate(of_agents) for name, v in of.items()}
    config = {**run.config, "objective": settings}
    earlier = {name: math.nan for name in line}
    return dataclasses.replace(run, config=config, train=[earlier, line])


@pytest.mark.parametrize(("settings", "bad", "good", "word"), CASES)
def test_a_sign_names_the_agents_that_show_it(run, settings, bad, good, word):
    text = failures.sentences(with_metrics(run, settings, good, bad))
    assert word in text and "Agent 1:" in text and 'class="warning"' in text
    assert "Agents 0, 1:" in failures.sentences(with_metrics(run, settings, bad, bad))
    assert not failures.sentences(with_metrics(run, settings, good, good))
    assert text in page.monitors(with_metrics(run, settings, good, bad))


def test_every_sign_has_a_case_and_belongs_to_an_objective():
    kinds = {kind for sign in failures.SIGNS for kind in sign.kinds}
    assert kinds <= OBJECTIVES.keys()
    assert len(CASES) == len(failures.SIGNS)


@pytest.mark.parametrize("kind", ["simclr", "dino", "autoencoder", "ijepa", None])
def test_missing_metrics_show_nothing(run, kind):
    settings = {"kind": kind, "outputs": 256}
    assert failures.found(with_metrics(run, settings, {"loss": 1.0}, {"loss": None})) == {}
    assert failures.found(dataclasses.replace(run, train=[])) == {}


def test_the_guide_has_the_same_signs():
    guide = GUIDE.read_text()
    for sign in failures.SIGNS:
        kinds = ", ".join(f"`{kind}`" for kind in sign.kinds)
        assert f"| {kinds} | {sign.meaning} | {sign.remedy} |\n" in guide
