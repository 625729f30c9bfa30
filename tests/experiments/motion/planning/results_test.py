"""The section of docs/results.md on plans carried through W, made again from the stored rows."""

import json
import pathlib

import numpy as np
import pytest

from experiments import findings
from experiments.motion import pairs
from experiments.motion.planning import claims

ROOT = pathlib.Path(__file__).parents[4]
TEXT = (ROOT / "docs" / "results.md").read_text("utf-8")
WORDS = " ".join(TEXT.split())
STORED = json.loads((ROOT / "tests/golden/motion/motion_planning.json").read_text("utf-8"))
ROWS = STORED["rows"]  # of a distance the one at the end

ACTS = {
    "feedback, true state": ("trained", "lqr", "oracle"),
    "feedback, own image": ("trained", "lqr", "own"),
    "feedback, W from pairs": ("trained", "lqr", "pairs"),
    "feedback, W from actions": ("trained", "lqr", "actions"),
    "feedback, no map": ("trained", "lqr", "unmapped"),
    "feedback, random rotation": ("trained", "lqr", "turned"),
    "partner's path, W from pairs": ("trained", "track", "pairs"),
    "partner's path, W from actions": ("trained", "track", "actions"),
    "blind plan, true state": ("trained", "shooting", "oracle"),
    "blind plan, own image": ("trained", "shooting", "own"),
    "blind plan, W from pairs": ("trained", "shooting", "pairs"),
    "blind plan, W from actions": ("trained", "shooting", "actions"),
    "untrained, feedback, own image": ("untrained", "lqr", "own"),
    "untrained, feedback, W from pairs": ("untrained", "lqr", "pairs"),
    "pixel PCA, feedback, own image": ("pixels", "lqr", "own"),
    "pixel PCA, feedback, W from pairs": ("pixels", "lqr", "pairs"),
}
STRAIGHT = {
    "true state": ("trained", "line", "oracle"),
    "own image": ("trained", "line", "own"),
    "W from pairs": ("trained", "line", "pairs"),
    "W from actions": ("trained", "line", "actions"),
    "no map": ("trained", "line", "unmapped"),
    "untrained, own image": ("untrained", "line", "own"),
    "pixel PCA, own image": ("pixels", "line", "own"),
}


def values(key, measure):
    space, planner, goal = key
    where = {"space": space, "planner": planner, "goal": goal, "measure": measure}
    (row,) = findings.select(ROWS, **where)
    assert len(row["values"]) == 10
    return row["values"]


def line(label, key, measures):
    cells = [pairs.interval(values(key, measure)) for measure in measures]
    shown = [f"{cell['mean']:.3f} ± {cell['half']:.3f}" for cell in cells]
    return f"| {label} | {' | '.join(shown)} |"


@pytest.mark.parametrize("label", ACTS)
def test_every_line_of_the_first_table(label):
    assert line(label, ACTS[label], ("success", "end", "detour")) in TEXT


@pytest.mark.parametrize("label", STRAIGHT)
def test_every_line_of_the_second_table(label):
    assert line(label, STRAIGHT[label], ("length ratio", "deviation")) in TEXT


def test_claims_follow_from_the_rows():
    expanded = []
    for row in ROWS:
        end = row["measure"] == "end"
        for pair, value in enumerate(row["values"]):
            measure = {"measure": "distance", "value": [value]} if end else {"value": value}
            expanded.append({**row, "pair": pair, **measure})
    found = [claim.plain() for claim in claims.claims(expanded)]
    assert [c["agrees"] for c in found] == [c["agrees"] for c in STORED["claims"]]
    for ours, stored in zip(found, STORED["claims"]):
        assert ours["ours"] == pytest.approx(stored["ours"], abs=2e-5)
    agrees = sum(c["agrees"] for c in found)
    assert f"{agrees} of {len(found)} claims agree, their bounds written before the run." in WORDS


def test_every_number_in_words():
    def mean(name, measure="success"):
        return np.mean(values({**ACTS, **STRAIGHT}[name], measure))

    own, paired, acted = (
        mean(f"feedback, {goal}") for goal in ("own image", "W from pairs", "W from actions")
    )
    worst = pairs.interval(
        np.subtract(
            values(ACTS["feedback, W from actions"], "success"),
            values(ACTS["feedback, own image"], "success"),
        )
    )
    assert abs(worst["mean"]) + worst["half"] > claims.EQUAL
    longer = mean("partner's path, W from actions", "detour") / mean(
        "feedback, own image", "detour"
    )
    followed = mean("partner's path, W from actions")
    lost, turned = mean("feedback, no map"), mean("feedback, random rotation")
    for sentence in (
        f"agents reach {own:.3f} of the goals that they see themselves, {paired:.3f} of those",
        f"and {acted:.3f} by a map from actions alone; without a map {lost:.3f}",
        f"by a random rotation {turned:.3f}",
        f"cost {own - paired:.3f} and {own - acted:.3f} of success",
        f"({followed:.3f} by actions), {100 * (longer - 1):.0f} % longer",
        f"weak point: {mean('blind plan, own image'):.3f} of own goals",
        f"against {mean('blind plan, true state'):.3f} with the true state and model",
        f"are {mean('own image', 'length ratio'):.2f} times as long as their chord",
        f"true states are {mean('true state', 'length ratio'):.2f} times",
        f"carried ones {mean('W from actions', 'length ratio'):.2f}",
    ):
        assert sentence in WORDS, sentence
    for name in ("untrained, feedback, own image", "pixel PCA, feedback, own image"):
        assert mean(name) < 0.005  # "reaches no goal"
        assert mean(name, "end") > 5
