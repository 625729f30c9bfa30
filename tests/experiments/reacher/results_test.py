"""The section of docs/results.md on DMC Reacher, made again from the stored rows."""

import json
import pathlib

import numpy as np
import pytest

from experiments import findings
from experiments.motion import pairs
from experiments.reacher import collapse, ou, planning, trajectory
from socialjepa_jax.data.reacher.dataset import NAMES
from socialjepa_jax.report import tables

ROOT = pathlib.Path(__file__).parents[3]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
TEXT = " ".join(RESULTS.split())
OWN, MOVED, WITHIN = ou.OWN, trajectory.PUBLISHED, trajectory.OWN
MODULES = {"reacher_ou": ou, "reacher_trajectory": trajectory, "reacher_planning": planning,
           "reacher_collapse": collapse}  # fmt: skip


def stored(name):
    return json.loads((ROOT / f"tests/golden/motion/{name}.json").read_text("utf-8"))


STORED = {name: stored(name) for name in MODULES}
ROWS, MOVING, PLANS, PLAIN = (STORED[name]["rows"] for name in MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_claims_are_judged_again(name):
    found = MODULES[name].claims(STORED[name]["rows"])
    for claim, before in zip(found, STORED[name]["claims"], strict=True):
        assert (claim.id, claim.agrees) == (before["id"], before["agrees"])
        assert claim.ours == pytest.approx(before["ours"], abs=2e-3)
    agrees = sum(bool(claim.agrees) for claim in found)
    assert f"{agrees} of {len(found)} claims agree" in TEXT
    head = " ".join(MODULES[name].__doc__.split())
    assert f"{agrees} of {len(found)} claims agree" in head


def of_rho(rho, name):
    """R2 of the three agents of a correlation before the first camera, at its usual lambda."""
    where = {"rho": rho, "camera": 0, "lambda": ou.weight(rho)}
    found = [row[name] for row in findings.select(ROWS, **where)]
    assert len(found) == 3
    return found


def of_lambda(weight):
    return findings.mean(ROWS, f"{OWN}/state", rho=0.9, camera=0, **{"lambda": weight})


@pytest.mark.parametrize("rho", ou.PAPER)
def test_the_table_is_that_of_its_rows(rho):
    names = [*(f"{OWN}/{name}" for name in NAMES), f"{OWN} wrapped/state", f"untrained {OWN}/state"]
    state = of_rho(rho, f"{OWN}/state")
    cells = [f"{np.mean(state):.3f}", " ".join(f"{value:.2f}" for value in state)]
    cells += [f"{np.mean(of_rho(rho, name)):.3f}" for name in names]
    assert f"| {rho:g} | {ou.PAPER[rho]:.2f} | {' | '.join(cells)} |" in RESULTS


def test_the_words_above_the_table_are_those_of_its_rows():
    w = {
        name: pairs.interval([row["W"] for row in findings.select(ROWS, subject=name)])
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


def test_the_table_of_strides_is_that_of_its_rows():
    assert tables.to_markdown(trajectory.table(MOVING)) in RESULTS


def mean(name, rho=0.9):
    return float(np.mean(of_rho(rho, name)))


def over_stride(cell, name="state"):
    return list(trajectory.over_stride(MOVING, f"{cell}/{name}", f"{cell}/state").values())


def matched(cell):
    """R2 of the process at the correlation nearest to that of each stride."""
    return [trajectory.of_process(MOVING, f"{cell}/state", trajectory.MATCHED[s])
            for s in trajectory.STRIDES["cpu"]]  # fmt: skip


def sigreg(name, stride):
    (row,) = findings.select(MOVING, measure="sigreg", of=name, stride=stride)
    return row["value"]


def lengths(rho):
    return float(planning.lengths(PLANS, condition="ou", rho=rho).mean())


CEILING = ROWS[0]
ORACLE = planning.lengths(PLANS, condition="oracle")
GAUSSIAN = planning.equivalence(planning.lengths(PLANS, condition="ou", rho=0.99), ORACLE)
WARPED = planning.lengths(
    PLANS, condition="trajectory", stride=8, **{"lambda": planning.best_lambda(PLANS)}
)
AGENTS = [row for row in PLANS if row["condition"] != "oracle"]
BEST = max(AGENTS, key=lambda row: row["ou>ou/state"])
WRIST = trajectory.over_stride(MOVING, f"{WITHIN}/wrist", f"{WITHIN}/state")
CLAIMS = {claim.id: claim for name in MODULES for claim in MODULES[name].claims(
    STORED[name]["rows"])}  # fmt: skip
SENTENCES = [
    ("has R2 {:.3f} on these states, their conditional mean {:.3f}",
     [CEILING[f"ceiling {OWN}/state"], CEILING[f"best guess {OWN}/state"]]),
    ("The three agents at rho = .9 hold {:.3f} of the wrapped angles",
     [mean(f"{OWN} wrapped/state")]),
    ("R2 is {:.3f}, {:.3f} and {:.3f} at lambda .001, .005 and .01, and {:.3f} at .05",
     [of_lambda(w) for w in (0.001, 0.005, 0.01, 0.05)]),
    ("sines of the angles have R2 {:.2f} and the cosines {:.2f} at rho = .9",
     [np.mean([mean(f"{OWN}/{f} {name}") for name in NAMES]) for f in ("sin", "cos")]),
    ("successive latents is {:.3f} on pairs that were trained on and {:.3f} on",
     [mean("rho_trained"), mean("rho_fresh")]),
    ("On Gaussian angles R2 is at most {:.2f}, and {:.2f} to {:.2f} of the process",
     [max(over_stride(MOVED)), min(matched(MOVED)), max(matched(MOVED))]),
    ("it rises with the stride to {:.2f}, of {:.2f} that wrapped angles have, where the process "
     "has {:.2f}", [over_stride(WITHIN)[-1], CEILING[f"ceiling {WITHIN}/state"],
                    matched(WITHIN)[-1]]),
    ("fall from {:.2f} to {:.2f} on Gaussian angles", [mean(f"{c}/state") for c in (OWN, MOVED)]),
    ("(wrapped angles: from {:.2f} to {:.2f})",
     [CEILING[f"ceiling {c}/state"] for c in (OWN, MOVED)]),
    ("from angles to latents from {:.2f} to {:.2f}", [mean(f"{c}/z to h") for c in (OWN, MOVED)]),
    ("(at most {:.2f}), whose own ceiling is {:.2f}",
     [max(over_stride(WITHIN, "shoulder")), CEILING[f"ceiling {WITHIN}/shoulder"]]),
    ("up to stride 8 ({:.2f}) and found at 64 ({:.2f})", [WRIST[8], WRIST[64]]),
    ("chosen on another seed loses {:.3f}*", [CLAIMS["lambda chosen on other seeds"].ours]),
    ("latents is {:.2f} on pairs that were trained on and {:.2f} on fresh ones (lambda = .01)",
     [findings.mean(MOVING, f"rho_{k}", stride=64, role="reported", **{"lambda": 0.01})
      for k in ("trained", "fresh")]),
    ("is {:.0f} (shoulder) and {:.0f} (wrist) at stride 8", [sigreg(n, 8) for n in NAMES]),
    ("{:.0f} and {:.0f} at stride 64", [sigreg(n, 64) for n in NAMES]),
    ("of Gaussian samples {:.1f}",
     [findings.select(MOVING, measure="floor", of="shoulder")[0]["value"]]),
    ("Paths are {:.2f} times their chord for the oracle and {:.2f} for the process at rho = .99 "
     "(90 % interval of the difference [{:.2f}, {:.2f}], margin .1)",
     [ORACLE.mean(), lengths(0.99), GAUSSIAN.low, GAUSSIAN.high]),
    ("{:.2f} to {:.2f} from rho = .7 to .95, and {:.2f} for trajectories at stride 8",
     [min(map(lengths, (0.7, 0.8, 0.9, 0.95))), max(map(lengths, (0.7, 0.8, 0.9, 0.95))),
      WARPED.mean()]),
    ("highest R2 of the joints ({:.2f}) is {:.2f} above the oracle",
     [BEST["ou>ou/state"],
      planning.equivalence(np.array(BEST[planning.LENGTHS]), ORACLE).mean]),
    ("No agent of {} collapses", [len(findings.select(PLAIN, normalized=False))]),
    ("a latent is {:.2f} to {:.2f} without it",
     [f(r["variance"] for r in findings.select(PLAIN, normalized=False)) for f in (min, max)]),
    ("{:.2f} at rho = .5 and {:.2f} at .9, with batch normalisation {:.2f} and {:.2f}",
     [findings.mean(PLAIN, "state", condition=f"process, rho {rho:g}", normalized=known)
      for known in (False, True) for rho in (0.5, 0.9)]),
    ("latents is {:.2f} on trained pairs and {:.2f} on fresh ones)",
     [mean(f"rho_{k}", 0.5) for k in ("trained", "fresh")]),
    ("Over {} agents length falls with R2 (rank correlation {:.2f})",
     [len(AGENTS), CLAIMS["all agents/length falls with R2"].ours]),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "values"), SENTENCES)
def test_a_sentence_states_numbers_of_the_rows(sentence, values):
    assert sentence.format(*values).replace("-0.", "\N{MINUS SIGN}0.") in TEXT


def test_no_plan_of_any_agent_is_equivalent_to_the_oracles():
    assert "no agent's plans are equivalent to the oracle's" in TEXT
    for row in AGENTS:
        assert not planning.equivalence(np.array(row[planning.LENGTHS]), ORACLE).holds


def test_no_agent_collapses_and_heads_say_so():
    shares = [collapse.share(PLAIN, known) for known in (False, True)]
    assert shares == [0.0, 0.0] and "no agent collapses" in collapse.__doc__
    r2 = [findings.mean(PLAIN, "state", normalized=known) for known in (False, True)]
    assert "{:.2f} over all conditions, {:.2f} with it".format(*r2) in " ".join(
        collapse.__doc__.split()
    )


def test_heads_state_the_numbers_of_the_rows():
    head = " ".join(planning.__doc__.split())
    middle = [lengths(rho) for rho in (0.7, 0.8, 0.9, 0.95)]
    assert f"{ORACLE.mean():.2f} times their chord for the oracle, {lengths(0.99):.2f}" in head
    assert f"{min(middle):.1f} to {max(middle):.1f} from 0.7 to 0.95" in head
    head = " ".join(trajectory.__doc__.split())
    most, process = max(over_stride(MOVED)), matched(MOVED)
    assert f"at most {most:.2f} (paper" in head
    assert f"{min(process):.2f} to {max(process):.2f} of the process" in head
    assert f"stride 64 holds {over_stride(WITHIN)[-1]:.2f}" in head
    assert f"and {WRIST[64]:.2f} of the wrist" in head
    head = " ".join(ou.__doc__.split())
    state = [np.mean(of_rho(rho, f"{OWN}/state")) for rho in (0.3, 0.5, 0.99)]
    assert "{:.2f}, {:.2f} and {:.2f} at 0.3, 0.5 and 0.99".format(*state) in head
    assert f"lambda = 0.05 costs {of_lambda(0.005) - of_lambda(0.05):.2f}" in head
