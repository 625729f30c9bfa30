"""The spectrum of W: its numbers by NumPy, wrong pairs, and its claims on made rows."""

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes

from experiments.rivals.geometry import spectrum
from experiments.rivals.methods import PIXELS
from experiments.rivals.tables.entrants import RIVALS
from experiments.rivals.tables.paradigms_claims import ABOVE
from socialjepa_jax.evaluation.splits import Split
from socialjepa_jax.records import RowName
from socialjepa_jax.report import tables
from tests.experiments.rivals.tables.made import cell

SPLIT = Split("instance", np.arange(300), np.arange(300, 400))


def spaces(rng, features=4):
    """Three spaces that are noisy linear maps of the same states."""
    shared = rng.normal(size=(400, features))
    mixed = (shared @ rng.normal(size=(3, features, features))).astype(np.float32)
    return mixed + 0.1 * rng.normal(size=mixed.shape)


def standardized(z):
    train = z[SPLIT.train]
    return (z - train.mean(0)) / train.std(0)


def test_numbers_of_a_map_are_those_of_numpy():
    z = spaces(np.random.default_rng(0))
    found = spectrum.spectra(SPLIT, z, [(0, 1), (0, 2)], 2, RowName.PIXEL_PCA)
    normed = spectrum.spectra(SPLIT, z, [(0, 1), (0, 2)], 2)["kappa"]["pairs"][0]
    s = []
    for column, other in enumerate((1, 2)):
        x, y = standardized(z[0]), standardized(z[other])
        w = np.linalg.solve(
            x[:300].T @ x[:300] + spectrum.HOW.ridge * np.eye(4), x[:300].T @ y[:300]
        )
        s.append(np.linalg.svd(w, compute_uv=False))
        assert normed[column] == pytest.approx(s[-1][0] / s[-1][2], rel=1e-5)
        total = np.sum((y[300:] - y[300:].mean(0)) ** 2)
        rotation, _ = orthogonal_procrustes(x[:300], y[:300])
        expected = {
            "kappa": np.linalg.cond(w),
            "orthogonality": np.linalg.norm(w @ w.T - np.eye(4)) / 2,
            "r2": 1 - np.sum((y[300:] - x[300:] @ w) ** 2) / total,
            "r2_orthogonal": 1 - np.sum((y[300:] - x[300:] @ rotation) ** 2) / total,
        }
        for name, value in expected.items():
            assert found[name]["pairs"][0][column] == pytest.approx(value, rel=1e-5), name
    assert found["kappa"]["without"] is None
    np.testing.assert_allclose(found["singular_values"], np.sqrt(s[0] * s[1]), rtol=1e-5)


def test_wrong_pairs_have_the_same_states_and_no_r2():
    z = spaces(np.random.default_rng(1))
    right, wrong = (
        spectrum.fitted(SPLIT, z[0], z[1], row) for row in (RowName.TRAINED, RowName.MISMATCHED)
    )
    for part in ("x_mean", "x_scale", "y_mean", "y_scale"):
        np.testing.assert_allclose(getattr(wrong, part), getattr(right, part), rtol=1e-6)
    assert wrong.singular_values[0] < 0.5 < right.singular_values[0]
    found = spectrum.spectra(SPLIT, z, [(0, 1)], 1, RowName.MISMATCHED)
    assert found["r2"]["pairs"][0][0] < 0.1


RANK = {name: 2.0 + k for k, name in enumerate(RIVALS)}


def made(change=None, wrong=2.0, untrained=2.0):
    """Rows on which every prediction of the head holds, but for the change of a method."""
    rows = [{"method": PIXELS, "row": RowName.PIXEL_PCA, "singular_values": [2.0, 1.0],
             **{key: cell(3.0, 1) for key in ("kappa", "orthogonality", "effective_rank", "rankme",
                                              "r2", "r2_orthogonal")}}]  # fmt: skip
    for name, rank in RANK.items():
        own = {
            "kappa": 1e4 / rank,
            "rankme": rank,
            "effective_rank": rank + 1,
            "r2": 0.9 - rank / 99,
        }
        own |= {"orthogonality": 2.0, "r2_orthogonal": own["r2"] - 0.05} | (change or {}).get(
            name, {}
        )
        times = dict(zip(spectrum.KINDS, (1.0, untrained, wrong)))
        rows += [
            {"method": name, "row": row, "singular_values": [2.0, 1.0],
             **{k: cell(v * by if k == "kappa" else v) for k, v in own.items()}}
            for row, by in times.items()
        ]  # fmt: skip
    return rows


PAPER = {"paper/kappa": False, "paper/orthogonal": False, "paper/conditioning": False}


def judged(rows):
    return {claim.id: claim.agrees for claim in spectrum.claims(rows)}


def test_claims_of_rows_on_which_the_predictions_hold():
    found = judged(made())
    assert found == dict.fromkeys(found, True) | PAPER
    assert len(found) == 8
    claims = {claim.id: claim for claim in spectrum.claims(made())}
    assert claims["paper/kappa"].paper == 1.68  # as printed in table 4 of the paper
    assert claims["wrong"].ours == 12 and claims["rank"].ours == pytest.approx(-1)


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ({"change": {"ijepa": {"kappa": 3.0}}}, {"paper/kappa"}),
        ({"change": {"ijepa": {"orthogonality": 0.4}}}, {"paper/orthogonal"}),
        ({"change": {"ijepa": {"r2_orthogonal": 0.7}}}, {"paper/rigid"}),
        ({"change": {name: {"r2": 0.5 + r / 99} for name, r in RANK.items()}},
         {"paper/conditioning"}),
        ({"change": {name: {"kappa": 1e3 * r} for name, r in RANK.items()}},
         {"rank", "paper/conditioning"}),
        ({"wrong": 3.5}, {"wrong"}),
        ({"untrained": 0.9}, {"spread"}),
        ({"change": {"swav": {"effective_rank": 1.0}}}, {"directions"}),
    ],
)  # fmt: skip
def test_each_claim_turns_where_the_rows_say_so(arguments, changed):
    before, after = judged(made()), judged(made(**arguments))
    assert {id for id in after if after[id] != before[id]} == changed


def test_table_and_figure_have_every_method():
    rows = made()
    text = tables.to_markdown(spectrum.table(rows))
    assert all(f"| {name} |" in text for name in (PIXELS, *RIVALS)) and ABOVE[0] in text
    axes = spectrum.plot(rows).figure.axes[0]
    labels = axes.get_legend_handles_labels()[1]
    assert set(labels) >= {PIXELS, "ijepa", "ijepa, wrong pairs", "orthogonal"}
