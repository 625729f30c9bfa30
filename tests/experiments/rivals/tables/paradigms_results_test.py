"""Paradigms as measured: claims, tables and sentences are those of the stored rows."""

import json

import pytest

from experiments.rivals.methods import PIXELS
from experiments.rivals.tables import baselines, leaderboard, paradigms
from experiments.rivals.tables.entrants import ENTRANTS, RIVALS
from experiments.rivals.tables.reading import gain, mean
from socialjepa_jax.report import tables
from tests.experiments.rivals import stored
from tests.experiments.rivals.stored import GOLDEN, ROOT

README = (ROOT / "README.md").read_text("utf-8")
PAGE, TEXT = stored.page("paradigms")
ROWS = [
    row
    for name in (PIXELS, *ENTRANTS)
    for row in json.loads((GOLDEN / "paradigms" / f"{name.replace(' ', '_')}.json").read_text())
]
MODULES = {"table1_paradigms": paradigms, "table2_baselines": baselines}
PAPERS = ("ijepa", "mae", "simclr", "autoencoder")


def area(name, row="trained"):
    return mean(ROWS, name, "area", row)


def short(value, digits=3):
    return f"{value:.{digits}f}".removeprefix("0")


@pytest.mark.parametrize("name", MODULES)
def test_stored_claims_are_judged_again(name):
    found = MODULES[name].claims(ROWS)
    stored.check_claims(found, stored.run(name)["claims"], abs=1e-4)
    agree = sum(claim.agrees is True for claim in found)
    assert f"{agree} of {len(found)} claims agree" in " ".join(MODULES[name].__doc__.split())


def test_the_page_has_the_tables_of_the_rows():
    for table in (
        paradigms.main_table(ROWS), paradigms.controls_table(ROWS), paradigms.work_table(ROWS),
        baselines.table(ROWS),
    ):  # fmt: skip
        assert tables.to_markdown(table) in PAGE


def test_the_readme_has_the_short_table_of_the_rows():
    assert leaderboard.markdown(ROWS) in README
    text = " ".join(README.split())
    adds = {key: sum(gain(ROWS, name, key).low > 0 for name in RIVALS) for key in ("area", "r2")}
    assert f"At equal ranks it does, for {adds['area']} of {len(RIVALS)} methods" in text
    assert adds["r2"] == 1 and "methods (by R² of W for one)" in text
    assert f"at equal ranks {adds['area']} of {len(RIVALS)} methods" in text
    above = [name for name in RIVALS if area(name) > mean(ROWS, PIXELS, "area", "pixel_pca")]
    assert above == ["swav"] and "only SwAV passes the pixels' components in area" in text
    most = max(mean(ROWS, name, "dimensions") for name in RIVALS)
    assert most < mean(ROWS, PIXELS, "dimensions", "pixel_pca")
    assert "none has as many directions" in text


def test_counts_are_those_of_the_claims():
    first = {claim.id: claim for claim in paradigms.claims(ROWS)}
    assert f"{sum(c.agrees for c in first.values())} of {len(first)} predictions agree" in TEXT
    second = [claim for claim in baselines.claims(ROWS) if claim.agrees is not None]
    agree = [claim.id for claim in second if claim.agrees]
    assert agree == ["first/r2"] and "1 of the 6 claims" in TEXT and len(second) == 6
    adds = [name for name in RIVALS if gain(ROWS, name, "area").low > 0]
    assert f"to the area of {len(adds)} of {len(RIVALS)} methods" in TEXT
    assert {*RIVALS} - {*adds} == {"mae", "autoencoder", "lejepa", "dinov2"}
    assert gain(ROWS, "dinov2", "area").high < 0 < gain(ROWS, "ijepa", "r2_beyond").low


def test_sentences_state_the_rows():
    r2 = {name: mean(ROWS, name, "r2") for name in RIVALS}
    directions = {name: mean(ROWS, name, "dimensions") for name in RIVALS}
    pixels = {
        key: mean(ROWS, PIXELS, key, "pixel_pca") for key in ("area", "dimensions", "probe_own")
    }
    assert max(r2, key=r2.get) == "ijepa" and max(directions, key=directions.get) == "swav"
    assert min(RIVALS, key=lambda name: mean(ROWS, name, "rankme")) == "ijepa"
    above = [name for name in ENTRANTS if area(name) > pixels["area"]]
    assert sorted(above) == ["swav", "vicreg_masked"]
    assert max(mean(ROWS, name, "probe_own") for name in ENTRANTS) < pixels["probe_own"]
    order = sorted(RIVALS, key=area, reverse=True)
    assert order[:4] == ["swav", "dino", "ibot", "ijepa"]
    dsc, nos = (
        {name: mean(ROWS, name, key) for name in baselines.PRINTED} for key in ("dsc", "nos@10")
    )
    assert (max(dsc, key=dsc.get), min(nos, key=nos.get)) == ("swav", "simclr")
    for sentence, values in [
        ("({:.3f}), though no further from SwAV ({:.3f})", [r2["ijepa"], r2["swav"]]),
        ("(RankMe {:.1f})", [mean(ROWS, "ijepa", "rankme")]),
        ("(SwAV {:.3f} for {:.3f}, SimCLR {:.3f} for {:.3f})",
         [dsc["swav"], dsc["ijepa"], nos["simclr"], nos["ijepa"]]),
        ("is not found ({:.3f}, {:.3f}, {:.3f}, {:.3f})", [r2[name] for name in PAPERS]),
        ("SwAV {:.3f}, DINO {:.3f} and iBOT {:.3f} stand above I-JEPA's {:.3f}",
         [area(name) for name in order[:4]]),
        ("(R² {:.3f} for {:.3f} untrained)",
         [mean(ROWS, "ijepa", "r2_beyond", row) for row in ("trained", "untrained")]),
        ("area of {:.3f} on two maskings of one image and {:.3f} on two crops",
         [area("vicreg_masked"), area("vicreg")]),
        ("is worse ({:.3f} for {:.3f})",
         [mean(ROWS, name, "probe_own") for name in ("vicreg_masked", "vicreg")]),
        ("of the pixels ({:.0f}; of the twelve, SwAV has the most, {:.1f}), whose area ({:.3f})",
         [pixels["dimensions"], directions["swav"], pixels["area"]]),
    ]:  # fmt: skip
        assert sentence.format(*values) in TEXT


def test_heads_state_the_rows():
    head, second = (" ".join(module.__doc__.split()) for module in MODULES.values())
    for text, sentence, values in [
        (head, "SwAV is first ({}), by R2 of W I-JEPA ({}, RankMe {})",
         [short(area("swav")), short(mean(ROWS, "ijepa", "r2")),
          f"{mean(ROWS, 'ijepa', 'rankme'):.1f}"]),
        (head, "VICReg has {} on masks, {} on crops",
         [short(area("vicreg_masked")), short(area("vicreg"))]),
        (second, "first in R2 ({}), SwAV in DSC ({}) and SimCLR in NOS@10 ({})",
         [short(mean(ROWS, "ijepa", "r2")), short(mean(ROWS, "swav", "dsc")),
          short(mean(ROWS, "simclr", "nos@10"))]),
    ]:  # fmt: skip
        assert sentence.format(*values) in text
