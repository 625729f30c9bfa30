"""The paper's nine methods beside ours, on rows whose values are known."""

import pytest

from experiments.rivals.tables import baselines
from socialjepa_jax.report.papers.social_jepa import SOCIAL_JEPA
from tests.experiments.rivals.tables.made import made


def judged(rows):
    return {claim.id: claim for claim in baselines.claims(rows)}


def test_jepa_is_first_only_if_no_other_method_is_ahead():
    found = judged(made())
    assert len(found) == 12
    assert found["first/r2"].agrees is False  # MoCo v3 has .95
    assert found["first/r2"].ours == pytest.approx(-0.05)
    found = judged(made({"moco": {"r2": 0.8}, "ijepa": {"dsc": 0.6, "nos@10": 0.4}}))
    assert [found[f"first/{m}"].agrees for m in baselines.METRICS] == [True] * 3
    assert found["first/nos@10"].ours == pytest.approx(0.4 - 0.491)  # less dinov2
    found = judged(made({"ijepa": {"dsc": 0.4, "nos@10": 0.6}}))
    assert [found[f"first/{m}"].agrees for m in ("dsc", "nos@10")] == [False] * 2


def test_orders_of_other_data_get_a_number_and_no_verdict():
    theirs = {"ijepa": 0.489, "dino": 0.283, "moco": 0.358, "ibot": 0.283, "mae": 0.409,
              "simclr": 0.437, "swav": 0.312, "barlow": 0.452, "dinov2": 0.441}  # fmt: skip
    same = judged(made({name: {"r2": value} for name, value in theirs.items()}))
    assert same["order/ImageNet-1k/r2"].ours == pytest.approx(1)
    turned = judged(made({name: {"r2": 1 - value} for name, value in theirs.items()}))
    assert turned["order/ImageNet-1k/r2"].ours == pytest.approx(-1)
    orders = [claim for id, claim in same.items() if id.startswith("order/")]
    assert [claim.agrees for claim in orders] == [None] * 6


def test_the_papers_own_table_does_not_have_jepa_first():
    found = judged(made())
    assert found["printed/r2"].ours == 1 and "moco" in found["printed/r2"].note
    assert found["printed/dsc"].ours == 3 and found["printed/nos@10"].ours == 3
    assert not any(found[f"printed/{m}"].agrees for m in baselines.METRICS)


def test_every_printed_row_is_found_and_stands_in_the_table():
    for number, at in ((2, 0), (10, 1)):
        rows = [names[at] for names in baselines.PRINTED.values() if names[at]]
        expected = {row.removeprefix("smallNORB / ").removeprefix("ImageNet-1k / ")
                    for row in SOCIAL_JEPA[number].rows}  # fmt: skip
        assert set(rows) == expected
    cells = {row.label: row.cells for row in baselines.table(made()).rows}
    assert cells["moco"]["smallNORB/r2"] == 0.987
    assert cells["barlow"]["smallNORB/r2"] is None
    assert cells["barlow"]["ImageNet-1k/nos@10"] == 0.058
    assert cells["mae"]["r2"].value == pytest.approx(0.8)


def test_bars_are_ours_beside_the_papers():
    axes = baselines.bars(made()).figure.axes[0]
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert names[:3] == ["moco", "ijepa", "mae"] and len(names) == 9
    heights = [bar.get_height() for bar in axes.patches]
    assert heights[0] == pytest.approx(0.95) and heights[9] == pytest.approx(0.358)
