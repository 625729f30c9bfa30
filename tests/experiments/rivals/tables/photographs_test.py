"""Claims on photographs are judged against the toys, on rows on which all of them hold."""

import pytest

from experiments.rivals.tables import photographs
from experiments.rivals.tables.entrants import RIVALS
from tests.experiments.rivals.tables.made import AREA, made

FIRST = {"swav": {"area": 0.5}}


def judged(rows):
    return {claim.id: claim for claim in photographs.claims(rows, made())}


def test_all_claims_hold_on_made_rows():
    found = judged(made(FIRST))
    assert {name: claim.agrees for name, claim in found.items()} == dict.fromkeys(found, True)
    assert list(found) == ["order", "swav", "gain", "pixels"]
    assert found["swav"].ours == 1 and found["gain"].ours == len(RIVALS) == 12
    assert found["pixels"].ours == pytest.approx(20.0 - 12.0)
    assert 0.7 < found["order"].ours < 1  # SwAV has moved to the first place


@pytest.mark.parametrize(
    ("change", "pixels", "wrong"),
    [
        ({name: {"area": 0.8 - AREA[name] + 0.01 * k} for k, name in enumerate(RIVALS)}, 20.0,
         {"order"}),
        ({"swav": {"area": 0.25}}, 20.0, {"swav"}),
        (FIRST | {name: {"untrained": 0.6} for name in list(RIVALS)[:5]}, 20.0, {"gain"}),
        (FIRST | {"mae": {"dimensions": 21.0}}, 20.0, {"pixels"}),
        (FIRST, 12.0, {"pixels"}),
    ],
)  # fmt: skip
def test_a_claim_differs_where_it_must(change, pixels, wrong):
    found = judged(made(change, pixels))
    assert {name for name, claim in found.items() if not claim.agrees} >= wrong
    assert found["gain"].agrees or "gain" in wrong


def test_the_head_has_the_predictions():
    text = " ".join(photographs.__doc__.split())
    for name in judged(made()):
        assert f"{name}: " in text
    assert f"Spearman's above .{photographs.ORDER * 10:.0f}" in text
    assert f"the area of at least {photographs.GAINS} methods" in text
