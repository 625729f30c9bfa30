"""The tables of docs/results.md on weights and on five latents, made again from the stored rows."""

import json
import pathlib

import numpy as np
import pytest

from experiments.motion import five, weights

ROOT = pathlib.Path(__file__).parents[3]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")


def stored(name):
    return json.loads((ROOT / "tests" / "golden" / "motion" / f"{name}.json").read_text("utf-8"))


def mean(rows, column, **where):
    return np.mean([r[column] for r in rows if where.items() <= r.items()])


def line(*cells):
    return f"| {' | '.join(cells)} |"


WEIGHTS = [
    ("c (1 - rho)", {"rule": "true"}),
    ("c (1 - rho_hat)", {"rule": "measured"}),
    ("c (1 - rho_hat), debiased", {"rule": "debiased"}),
    *((f"{w:g}", {"rule": "fixed", "lambda": w}) for w in weights.LAMBDAS["cpu"]),
]


@pytest.mark.parametrize(("label", "where"), WEIGHTS)
def test_the_table_of_weights_is_that_of_its_rows(label, where):
    rows = stored("motion_weights")["rows"]
    values = [
        mean(rows, "state_r2", rho=rho, batch=128, outputs=3, **where)
        for rho in weights.RHOS["cpu"]
    ]
    assert line(label, *(f"{v:.3f}" for v in values)) in RESULTS


@pytest.mark.parametrize(
    ("label", "rule"),
    [("c = 0.1", "measured"), ("c = 0.1, debiased", "debiased"), ("c = 12.8 / B", "scaled")],
)
def test_the_table_of_batches_is_that_of_its_rows(label, rule):
    rows = stored("motion_weights")["rows"]
    usual = {128: "measured"} if rule == "scaled" else {}  # the same setting
    values = [
        mean(rows, "state_r2", rho=0.9, batch=batch, outputs=3, rule=usual.get(batch, rule))
        for batch in (64, 128, 256, 1024)
    ]
    assert line(label, *(f"{v:.3f}" for v in values)) in RESULTS


def test_nine_outputs_are_those_of_the_rows():
    rows = stored("motion_weights")["rows"]
    state, r2 = (mean(rows, key, outputs=9) for key in ("state_r2", "r2"))
    assert f"With D = 9 R2 of the state is {state:.3f} and of W {r2:.3f}" in RESULTS.replace(
        "\n", " "
    )


@pytest.mark.parametrize("name", five.WORLDS)
def test_the_table_of_five_latents_is_that_of_its_rows(name):
    rows = stored("motion_five")["rows"]
    latents, _ = five.WORLDS[name]
    each = ", ".join(f"{k} {mean(rows, 'value', world=name, measure=k):.3f}" for k in latents)
    state, r2 = (mean(rows, "value", world=name, measure=k) for k in ("state", "r2"))
    apart = ", ".join(
        f"{mean(rows, 'value', world=name, measure=f'apart/{k}'):.0f}" for k in latents
    )
    assert line(name, f"{state:.3f}", f"{r2:.3f}", each, apart) in RESULTS


def test_claims_are_judged_again():
    for name, module in (("motion_weights", weights), ("motion_five", five)):
        found = stored(name)
        rows = found["rows"]
        if module is five:
            claims = [claim for world in five.SEEN for claim in five._claims(rows, world)]
        else:
            claims = [*weights._rho_claims(rows), *weights._batch_claims(rows)]
            claims.append(weights._width_claim(rows))
        assert [c.id for c in claims] == [c["id"] for c in found["claims"]]
        for claim, before in zip(claims, found["claims"]):
            assert claim.agrees == before["agrees"]
            assert claim.ours == pytest.approx(before["ours"], abs=1e-12)


def test_the_sentences_state_numbers_of_the_claims():
    found = {c["id"]: c["ours"] for c in stored("motion_weights")["claims"]}
    text = RESULTS.replace("\n", " ")
    measured, _, fixed, *_ = found.values()
    for sentence, value in (
        ("each loses at least {} somewhere", fixed),
        ("With rho_hat the rule loses up to {} (at .8)", measured),
        ("at 1,024 c = 0.1 gives {} and", found["measured/batch of 1024"]),
        ("c = 12.8 / B {}.", found["scaled/batch of 1024"]),
    ):
        assert sentence.format(f"{value:.2f}".removeprefix("0")) in text
    five_found = stored("motion_five")
    assert min(c["ours"] for c in five_found["claims"]) >= 0.95
    agree = sum(c["agrees"] for c in five_found["claims"])
    assert f"{agree} of {len(five_found['claims'])} claims agree" in text
