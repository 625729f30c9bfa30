"""The stored certificates: their properties, and every number that the documents draw from them.

They are remade by `python -m experiments.certificates --budgets=tests/certificates --store`.
"""

import itertools
import math
import pathlib

import pytest

from experiments.bench import abstract, budgets, certificate_table, certificates, facts, targets
from socialjepa_jax.performance import flops
from socialjepa_jax.running.presets import PRESETS

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
NAMES = [*PRESETS, *abstract.EXTRAS]
STORED = {name: budgets.read(HERE, name) for name in certificates.TARGETS}
ENTRIES = [entry for stored in STORED.values() for entry in stored.values()]
COMPILED = [entry for entry in ENTRIES if "refused" not in entry]


def named(entry):
    return f"{entry['preset']}-{entry['target']}"


def test_every_preset_has_a_certificate_for_every_target_or_the_reason_why_not():
    assert all(list(stored) == NAMES for stored in STORED.values())
    for entry in ENTRIES:
        if "refused" in entry:  # a batch that is smaller than the slice
            assert "cannot be split over" in entry["refused"], named(entry)


@pytest.mark.parametrize("entry", COMPILED, ids=named)
def test_a_step_donates_its_state_stays_on_the_chips_and_sums_in_float32(entry):
    assert entry["aliased_leaves"] >= entry["state_leaves"] == entry["donated_leaves"]
    assert entry["aliased_bytes"] >= entry["state_bytes"]
    assert entry["host_transfers"] == [] and entry["float32_outside"] == []
    kinds = {kind for found in entry["collectives"] for kind in found["types"]}
    assert kinds <= {"f32", "s32", "u32", "pred"}


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
    for entry, cells in itertools.product(
        ENTRIES, (certificate_table.row, certificate_table.properties)
    ):
        if cells is certificate_table.row or "refused" not in entry:
            assert certificate_table.line(cells(entry)) in text, named(entry)
    rows = [line for line in text.splitlines() if line.startswith("| ") and "@" not in line]
    assert len(rows) >= len(ENTRIES) + len(COMPILED)
