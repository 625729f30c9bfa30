"""The identifiability paper at CPU scale: stored claims are judged again, sentences read again."""

import json

import numpy as np
import pytest

from experiments import findings, reproduce
from experiments.identifiability import (
    anisotropic,
    assumptions,
    dimension,
    gennorm,
    grid,
    planning,
    predictors,
    scaling,
    sfa,
    social,
    two_dimensional,
    unmatched,
    warp,
)
from tests.experiments.rivals import stored
from tests.experiments.rivals.stored import ROOT

FOLDER = ROOT / "tests" / "golden" / "identifiability"
NAMES = [name for name in reproduce.matching("id_*") if name != "id_dirichlet"]
STORED = {name: json.loads((FOLDER / f"{name}.json").read_text("utf-8")) for name in NAMES}
ROWS = {name: part["rows"] for name, part in STORED.items()}
RESULTS = stored.in_one_line((ROOT / "docs" / "results.md").read_text("utf-8"))
README = stored.in_one_line((ROOT / "README.md").read_text("utf-8"))
JUDGES = {
    "id_2d": two_dimensional._claims,
    "id_scaling": scaling._claims,
    "id_grid": grid._claims,
    "id_gennorm": gennorm._claims,
    "id_anisotropic": anisotropic._claims,
    "id_warp": warp._claims,
    "id_unmatched": lambda rows: [unmatched._claim(rows)],
    "id_samples": lambda rows: [assumptions._more_pairs(rows)],
    "id_isotropization": lambda rows: [assumptions._goal_seeking(rows)],
    "id_dimension": dimension._claims,
    "id_social": social._claims,
    "id_planning": lambda rows: planning._claims(rows, np.array([row["r2_hz"] for row in rows])),
    "id_sfa": sfa._claims,
}
READERS = {"id_bound": predictors.bound, "id_loss": predictors.loss, "id_oracle": dimension.oracle}


@pytest.mark.parametrize("name", NAMES)
def test_stored_claims_are_judged_again(name):
    read_others = name in READERS
    found = READERS[name]("cpu", FOLDER).claims if read_others else JUDGES[name](ROWS[name])
    stored.check_claims(found, STORED[name]["claims"], abs=1e-4)


def test_counts_are_those_of_the_claims():
    verdicts = [claim["agrees"] for part in STORED.values() for claim in part["claims"]]
    count = f"{sum(verdicts)} of {len(verdicts)} claims"
    assert f"{count} agree" in README and f"{count} agree" in RESULTS
    assert f"{count} of id_2d to id_sfa agree" in stored.in_one_line(reproduce.__doc__)


def mean(name, column, **where):
    return findings.mean(ROWS[name], column, **where)


def short(value, digits=3):
    return f"{value:.{digits}f}".removeprefix("0")


def claim(name, identity):
    return next(c["ours"] for c in STORED[name]["claims"] if c["id"] == identity)


def fast(method, above):
    rows = findings.select(ROWS["id_anisotropic"], method=method)
    return np.mean([row["r2_fast"] for row in rows if (row["ratio"] > 2.0) == above])


def beyond_z(method, alpha):
    """R2 of the first eigenfunction less that of z."""
    where = {"method": method, "alpha": alpha}
    return mean("id_warp", "r2_phi", **where) - mean("id_warp", "r2_hz", **where)


def test_sentences_state_the_rows():
    whiten = [mean("id_scaling", "r2_hz", N=n, method="whiten") for n in (2, 4, 8, 16)]
    scaled = {"method": "infonce_scaled"}
    kernel = [mean("id_scaling", "r2_hz", N=n, **scaled) for n in scaling.DIMS["cpu"]]
    spread = [mean("id_scaling", "trace_cov", N=n, **scaled) / n for n in scaling.DIMS["cpu"]]
    matched = findings.select(ROWS["id_social"], world="RealNVP, matched", private=0)
    light = [beyond_z(method, a) for method in ("whiten", "sigreg") for a in (4.0, 8.0, 32.0)]
    heavy = sorted((beyond_z(method, 1.25) for method in ("whiten", "sigreg")), reverse=True)
    missed = [claim("id_oracle", f"{loss}/mean absolute error of the prediction")
              for loss in ("sigreg", "whiten")]  # fmt: skip
    assert kernel[0] == max(kernel) and kernel[-1] == min(kernel)
    for sentence, values in [
        ("RealNVP in 2-D (R2 {}), whitening at N = 2 ... 16 ({}-{})",
         [short(mean("id_2d", "r2_hz", mixing="realnvp", method="sigreg", preset="code")),
          short(min(whiten)), short(max(whiten))]),
        ("has R2 {:.4f} through W", [max(row["r2"] for row in matched)]),
        ("R2 falls from {} to {} and the codes' variance a dimension grows from {:.1f} to {:.1f}",
         [short(kernel[0], 2), short(kernel[-1], 2), min(spread), max(spread)]),
        ("whitening loses the fast latent (R2 {}), SIGReg keeps it ({})",
         [short(fast("whiten", above=True), 2), short(fast("sigreg", above=True), 2)]),
        ("({:.2f} against {:.2f} for whitening)", missed),
        ("closer to phi1(z) than to z by {}-{}", [short(min(light)), short(max(light))]),
        ("at alpha 1.25 it is not ({} to {})",
         [short(value, 2).replace("-0", "-") for value in heavy]),
        ("D of theorem 3 has rank correlation {}",
         [short(claim("id_loss", "gap/rank correlation"), 2)]),
    ]:  # fmt: skip
        assert sentence.format(*values) in RESULTS
