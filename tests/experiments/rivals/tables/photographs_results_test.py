"""Photographs as measured: claims, tables and sentences are those of the stored rows."""

import json

from experiments.rivals.methods import PIXELS
from experiments.rivals.tables import measures, paradigms, photographs
from experiments.rivals.tables.entrants import ENTRANTS, REFERENCES, RIVALS
from experiments.rivals.tables.reading import gain, mean, row_of
from socialjepa_jax.report import tables
from tests.experiments.rivals import stored
from tests.experiments.rivals.stored import GOLDEN, ROOT
from tests.experiments.rivals.tables.paradigms_results_test import ROWS as TOYS

README = stored.in_one_line((ROOT / "README.md").read_text("utf-8"))
PAGE, TEXT = stored.page("photographs")
HEAD = stored.in_one_line(photographs.__doc__)
ROWS = [
    row
    for name in (PIXELS, *ENTRANTS)
    for row in json.loads((GOLDEN / "eth80" / f"{name.replace(' ', '_')}.json").read_text())
]
AREA = {name: mean(ROWS, name, "area") for name in RIVALS}
R2 = {name: mean(ROWS, name, "r2") for name in RIVALS}
DIRECTIONS = {name: mean(ROWS, name, "dimensions") for name in RIVALS}


def pixels(key):
    return mean(ROWS, PIXELS, key, "pixel_pca")


def added(key):
    """Methods to which training adds, its interval above zero."""
    return [name for name in RIVALS if gain(ROWS, name, key).low > 0]


def test_stored_claims_are_judged_again():
    found = photographs.claims(ROWS, TOYS)
    stored.check_claims(found, stored.run("table1_eth80")["claims"], abs=1e-4)
    count = f"{sum(claim.agrees for claim in found)} of {len(found)}"
    assert f"{count} predictions," in TEXT and f"{count} claims agree" in HEAD


def test_the_page_has_the_tables_of_the_rows():
    for table in (paradigms.main_table, paradigms.controls_table, paradigms.work_table):
        assert tables.to_markdown(table(ROWS)) in PAGE


def test_sentences_state_the_rows():
    claims = {claim.id: claim for claim in photographs.claims(ROWS, TOYS)}
    order = sorted(RIVALS, key=AREA.get, reverse=True)
    assert order[:3] == ["moco", "swav", "ijepa"] and order[-2:] == ["ibot", "dinov2"]
    intervals = [measures.interval(row_of(ROWS, name)["area"]) for name in order[:-1]]
    assert min(each.high - each.low for each in intervals) > AREA["moco"] - AREA["ibot"]
    masked = {key: mean(ROWS, "vicreg_masked", key) for key in ("area", "dimensions")}
    assert max(REFERENCES, key=lambda name: mean(ROWS, name, "area")) == "vicreg_masked"
    assert max(REFERENCES, key=lambda name: mean(ROWS, name, "dimensions")) == "vicreg_masked"
    assert max(R2, key=R2.get) == "ijepa" and added("r2") == ["ijepa"]
    assert max(DIRECTIONS, key=DIRECTIONS.get) == "dino" and not added("r2_beyond")
    assert pixels("area") > max(masked["area"], *AREA.values())
    assert pixels("dimensions") > max(masked["dimensions"], *DIRECTIONS.values())
    assert {*RIVALS} - {*added("area")} == {"simclr", "mae", "dino", "ibot", "dinov2"}
    assert gain(ROWS, "dinov2", "area").high < 0
    for sentence, values in [
        ("correlation of the areas is {:.2f}, predicted", [claims["order"].ours]),
        ("MoCo v3 ({:.3f}), SwAV ({:.3f}) and I-JEPA ({:.3f})", [AREA[n] for n in order[:3]]),
        ("between {:.3f} and {:.3f}", [AREA["ibot"], AREA["moco"]]),
        ("DINOv2 ({:.3f}) lies apart", [AREA["dinov2"]]),
        ("({:.3f} for {:.3f} untrained)", [R2["ijepa"], mean(ROWS, "ijepa", "r2", "untrained")]),
        ("to the area of {} of {} methods", [len(added("area")), len(RIVALS)]),
        ("an area of {:.3f} and {:.0f} directions", [pixels("area"), pixels("dimensions")]),
        ("the most directions, {:.1f})", [DIRECTIONS["dino"]]),
        ("(VICReg on masks, {:.3f} and {:.1f})", [masked["area"], masked["dimensions"]]),
    ]:
        assert sentence.format(*values) in TEXT
    assert f"[on photographs for {len(added('area'))}]" in README
