"""The stored certificates: their properties, and every number that the documents draw from them.

They are remade by `python -m experiments.certificates --budgets=tests/certificates --store`.
"""

import itertools
import math
import pathlib

import pytest

from experiments.aot import abstract, budgets, certify, facts, many_chips, parts, table, targets
from socialjepa_jax.performance import flops
from socialjepa_jax.running.presets import PRESETS

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
NAMES = [*PRESETS, *abstract.EXTRAS]
STORED = {name: budgets.read(HERE, name) for name in certify.TARGETS}
ALL = [entry for stored in STORED.values() for entry in stored.values()]
ENTRIES = [entry for entry in ALL if entry["preset"] in NAMES]
PARTS = [entry for entry in ALL if entry["preset"] in parts.PARTS]
COMPILED = [entry for entry in ENTRIES if "refused" not in entry]


def words(name):
    """A document's text on one line."""
    return " ".join((ROOT / name).read_text().split())


def named(entry):
    return f"{entry['preset']}-{entry['target']}"


def test_every_preset_has_a_certificate_or_the_documents_say_that_it_has_none():
    pairs = itertools.product(STORED, NAMES)
    missing = [f"{name} for {target}" for target, name in pairs if name not in STORED[target]]
    sentence = f"Not compiled yet: {', '.join(missing)}."
    assert not missing or sentence in words("docs/certificates.md")
    for entry in ENTRIES:
        reasons = ("cannot be split over", "attention='")  # a small batch, a kernel for one GPU
        assert "refused" not in entry or any(why in entry["refused"] for why in reasons)


@pytest.mark.parametrize("entry", COMPILED, ids=named)
def test_a_step_donates_its_state_stays_on_the_chips_and_sums_in_float32(entry):
    assert entry["aliased_leaves"] >= entry["state_leaves"] == entry["donated_leaves"]
    assert entry["aliased_bytes"] >= entry["state_bytes"]
    assert entry["host_transfers"] == [] == entry["float32_outside"]
    assert facts.outside(entry["float32_products"], entry["dtype"]) == []
    kinds = {kind for found in entry["collectives"] for kind in found["types"]}
    assert kinds <= {"f32", "s32", "u32", "pred"}


@pytest.mark.parametrize("target", STORED)
def test_programs_beside_the_steps_stay_on_the_chips(target):
    found = [entry for entry in PARTS if entry["target"] == target]
    assert {entry["preset"] for entry in found} == parts.PARTS.keys()
    split = [entry for entry in found if "refused" not in entry]
    whole = [entry["refused"] for entry in found if "refused" in entry]
    assert all("must be a multiple of 256" in why for why in whole)  # 50,000 and a million rows
    assert len(split) >= len(parts.PARTS) - 2
    assert not any(entry["host_transfers"] or entry["float32_outside"] for entry in split)


@pytest.mark.parametrize("entry", COMPILED, ids=named)
def test_bounds_follow_from_the_facts(entry):
    again = facts.bounds(entry, targets.parse(entry["target"]))
    seconds = again.pop("seconds")
    assert entry["seconds"] == pytest.approx(seconds, rel=1e-9)
    assert entry["mfu"] == pytest.approx(again.pop("mfu"), rel=1e-9)
    assert entry["hidden_seconds"] == pytest.approx(again.pop("hidden_seconds"), abs=1e-12)
    assert {name: entry[name] for name in again} == again


@pytest.mark.parametrize("name", ["toys_ijepa_vits", "lejepa_vits"])
def test_flops_are_the_model_s(name):
    experiment = abstract.experiment_of(name)
    data, agents = experiment.data, len(experiment.agents.seeds)
    shape = (data.image_size, data.image_size, data.channels)
    each = agents * flops.step(experiment.objective, experiment.run.batch_size, shape)
    for target, stored in STORED.items():
        chips = math.prod(stored[name]["mesh"].values())
        assert chips == targets.parse(target).size
        assert stored[name]["flops_per_chip"] == pytest.approx(each / chips, rel=1e-9)


def test_the_tables_of_the_documents_are_those_of_the_certificates():
    text = (ROOT / "docs" / "certificates.md").read_text()
    for part in table.markdown(ALL).split("\n\n"):
        assert part in text


HEADLINES = {
    "I-JEPA on one H100": ("toys_ijepa_vits", "h100x1"),
    "LeJEPA, 2 + 6 views, on one H100": ("lejepa_vits", "h100x1"),
    "I-JEPA on v5e-4": ("toys_ijepa_vits", "v5e:2x2"),
    "LeJEPA, 2 + 6 views, on v5e-4": ("lejepa_vits", "v5e:2x2"),
}


def test_the_guide_to_devices_states_the_bounds_of_both_vits():
    guide = (ROOT / "docs" / "guides" / "devices.md").read_text()
    assert "compiled and bounded, not run" in words("docs/guides/devices.md")
    assert table.line(list(table.HEADLINE)) in guide
    for name, (preset, target) in HEADLINES.items():
        cells = table.headline(name, STORED[target][preset])
        assert table.line(cells) in guide


def test_the_predictions_of_the_documents_are_those_of_the_scaling_model():
    text = (ROOT / "docs" / "certificates.md").read_text()
    for line in many_chips.report(many_chips.stored(HERE)):
        assert line in text
