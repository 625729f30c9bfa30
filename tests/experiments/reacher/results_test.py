"""The section of docs/results.md on the arm, made again from the stored rows of single agents."""

import json
import pathlib

import numpy as np
import pytest

from experiments import findings
from experiments.motion import pairs
from experiments.reacher import ou, planning, trajectory
from socialjepa_jax.data.reacher.dataset import NAMES

ROOT = pathlib.Path(__file__).parents[3]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
TEXT = " ".join(RESULTS.split())
STORED = json.loads((ROOT / "tests/golden/motion/reacher_agents.json").read_text("utf-8"))
ROWS = STORED["rows"]
OWN, MOVED = ou.OWN, trajectory.PUBLISHED
AGENT = next(row for row in ROWS if row["steps"] == 2400)
LENGTHS = {row["of"]: row for row in STORED["plans"]}


TABLE = json.loads((ROOT / "tests/golden/motion/reacher_ou.json").read_text("utf-8"))["rows"]


def of_rho(rho, name):
    """R2 of the three agents of a correlation before the first camera."""
    found = [row[name] for row in findings.select(TABLE, rho=rho, camera=0)]
    assert len(found) == 3
    return found


@pytest.mark.parametrize("rho", ou.PAPER)
def test_the_table_is_that_of_its_rows(rho):
    names = [*(f"{OWN}/{name}" for name in NAMES), f"{OWN} wrapped/state", f"untrained {OWN}/state"]
    state = of_rho(rho, f"{OWN}/state")
    cells = [f"{np.mean(state):.3f}", " ".join(f"{value:.2f}" for value in state)]
    cells += [f"{np.mean(of_rho(rho, name)):.3f}" for name in names]
    assert f"| {rho:g} | {ou.PAPER[rho]:.2f} | {' | '.join(cells)} |" in RESULTS


def test_the_words_above_the_table_are_those_of_its_rows():
    claims = [c for c in ou.claims(TABLE) if not c.id.startswith("lambda")]  # one lambda was run
    agrees = sum(bool(claim.agrees) for claim in claims)
    assert f"{agrees} of {len(claims)} claims agree" in TEXT
    w = {
        name: pairs.interval([row["W"] for row in findings.select(TABLE, subject=name)])
        for name in ("two cameras", "one camera", "untrained")
    }
    two, one = (f"{w[n]['mean']:.3f} ± {w[n]['half']:.3f}" for n in ("two cameras", "one camera"))
    assert f"(R2 of W {two})" in TEXT
    assert f"of one camera W has {one}, between untrained ones {w['untrained']['mean']:.3f}" in TEXT
    means = [np.mean(of_rho(rho, f"{OWN}/state")) for rho in (0.7, 0.8, 0.9, 0.95)]
    assert (f"{min(means):.2f}"[1:], f"{max(means):.2f}"[1:]) == (".88", ".90")
    lost = {
        rho: int(np.sum(np.array(of_rho(rho, f"{OWN}/wrist")) < 0.6)) for rho in (0.3, 0.5, 0.99)
    }
    found = max(of_rho(0.5, f"{OWN}/state"))
    assert f"{lost[0.3] + lost[0.5]} of 6 agents at .3 and .5 and {lost[0.99]} of 3 at .99" in TEXT
    assert f"the one that has found it at .5 has {found:.2f}, as the paper has" in TEXT


CELLS = (OWN, MOVED, trajectory.OWN)
TRAINED = [
    ("process, rho .9", {"rho": 0.9, "rate": 0.003}),
    ("trajectories, stride 8", {"stride": 8}),
    ("trajectories, stride 64", {"stride": 64}),
]


def agent(**where):
    """The agent of 1,200 steps with the seed that the table of cells shows."""
    return findings.select(ROWS, steps=1200, seed=6900, **where)[0]


@pytest.mark.parametrize(("label", "where"), TRAINED)
def test_the_table_of_cells_is_that_of_its_rows(label, where):
    row = agent(**where)
    for name, start in ((label, ""), ("(wrapped angles)", "ceiling ")):
        cells = " | ".join(f"{row[f'{start}{cell}/state']:.2f}" for cell in CELLS)
        assert f"| {name} | {cells} |" in RESULTS


def test_the_order_of_agents_depends_on_the_cell():
    process, _, moved = (agent(**where) for _, where in TRAINED)
    assert process[f"{OWN}/state"] > moved[f"{OWN}/state"] + 0.3
    assert agent(stride=8)[f"{OWN}/wrist"] < 0.05
    assert moved[f"{trajectory.OWN}/state"] > process[f"{trajectory.OWN}/state"]


def curve(name):
    values = findings.select(STORED["differences"], measure="sigreg", of=name)
    return {row["stride"]: row["value"] for row in values}


def floor(name):
    (row,) = findings.select(STORED["differences"], measure="floor", of=name)
    return row["value"]


def wrists(**where):
    """R2 of the wrist of agents of 1,200 steps."""
    agents = findings.select(ROWS, steps=1200, condition="ou", **where)
    return [row[f"{OWN}/wrist"] for row in agents]


SENTENCES = [
    ("has R2 {:.3f} on these states, their conditional mean {:.3f}",
     [AGENT[f"ceiling {OWN}/state"], AGENT[f"best guess {OWN}/state"]]),
    ("after 2,400 steps has {:.3f}, and {:.3f} of the wrapped angles",
     [AGENT[f"{OWN}/state"], AGENT[f"{OWN} wrapped/state"]]),
    ("lambda = .01 and .05 do not find it ({:.2f}, {:.2f})",
     [wrists(rho=0.99, **{"lambda": w})[0] for w in (0.01, 0.05)]),
    ("found it at .95 ({:.2f}) and lost it at .9 ({:.2f})",
     [wrists(rho=rho, rate=0.01)[0] for rho in (0.95, 0.9)]),
    ("R2 on Gaussian angles falls to {:.2f} (wrapped angles {:.2f})",
     [AGENT[f"{MOVED}/state"], AGENT[f"ceiling {MOVED}/state"]]),
    ("from angles to latents from {:.2f} to {:.2f}",
     [AGENT[f"{cell}/z to h"] for cell in (OWN, MOVED)]),
    ("Within trajectories the wrapped angles themselves have {:.2f}",
     [AGENT["ceiling trajectory>trajectory/state"]]),
    ("sines of its angles have R2 {:.2f} and the cosines {:.2f}",
     [np.mean([AGENT[f"{OWN}/{f} {name}"] for name in NAMES]) for f in ("sin", "cos")]),
    ("is {:.0f} (shoulder) and {:.0f} (wrist) at stride 8", [curve(n)[8] for n in NAMES]),
    ("{:.0f} and {:.0f} at stride 64", [curve(n)[64] for n in NAMES]),
    ("of Gaussian samples {:.1f}", [floor("shoulder")]),
    ("keeps the wrist ({:.2f} within trajectories)",
     [agent(stride=64)[f"{trajectory.OWN}/wrist"]]),
    ("(correlation of latents {:.2f}, {:.2f} on fresh ones)",
     [agent(stride=64)[key] for key in ("rho_trained", "rho_fresh")]),
    ("is {:.3f} on pairs that it was trained on and {:.3f} on fresh ones",
     [AGENT["rho_trained"], AGENT["rho_fresh"]]),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "values"), SENTENCES)
def test_a_sentence_states_numbers_of_the_rows(sentence, values):
    assert sentence.format(*values).replace("-0", "\N{MINUS SIGN}0") in TEXT


def test_the_wrist_is_often_lost():
    found = np.array(wrists()) > 0.6
    assert f"{found.sum()} of {len(found)} agents of 1,200 steps" in TEXT


def test_plans_are_those_of_the_rows():
    ours, oracle = (np.array(LENGTHS[name]["lengths"]) for name in ("agent", "oracle"))
    found = planning.equivalence(ours, oracle)
    sentence = "paths {:.2f} times their chord, those of the oracle {:.2f}"
    assert sentence.format(ours.mean(), oracle.mean()) in TEXT
    assert f"90 % interval of the difference [{found.low:.2f}, {found.high:.2f}]" in TEXT
    assert ("they are equivalent" if found.holds else "they are not equivalent") in TEXT
