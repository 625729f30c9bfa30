"""Budgets: numbers of certificates that may only get better."""

import json

import pytest

from experiments.aot import budgets
from socialjepa_jax.errors import InputError

SUM = {"kind": "all-reduce", "types": ["f32"], "size": 8, "group": 4}
ENTRY = {
    "preset": "toys", "target": "v5e:2x2", "argument_bytes": 100, "temporary_bytes": 1000,
    "traffic_bytes": 1e6, "flops_in_tiles": 1.2, "padding": 0.1, "needed_bytes": 2000,
    "aliased_leaves": 5, "state_leaves": 5, "host_transfers": [], "float32_outside": [],
    "collectives": [SUM],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"temporary_bytes": 1011}, "temporary_bytes 1011 instead of 1000"),
        ({"padding": 0.2}, "padding 0.2 instead of 0.1"),
        ({"aliased_leaves": 4}, "4 of 5 leaves of the state are donated"),
        ({"host_transfers": ["send x"]}, "talks to the host: send x"),
        ({"float32_outside": ["models/vit.py"]}, "float32 products of models/vit.py"),
        ({"collectives": [SUM | {"types": ["bf16"]}]}, "sums in bf16"),
        ({"refused": "too large"}, "is refused: too large"),
    ],
)
def test_what_is_worse_is_named(tmp_path, change, said):
    budgets.path_of(tmp_path, "v5e:2x2").write_text(json.dumps([ENTRY]))
    with pytest.raises(InputError, match=f"toys for v5e:2x2.*{said}"):
        budgets.check([ENTRY | change], tmp_path)


def test_what_is_no_worse_passes(tmp_path):
    budgets.path_of(tmp_path, "v5e:2x2").write_text(json.dumps([ENTRY]))
    better = ENTRY | {"temporary_bytes": 1009, "traffic_bytes": 1e5}
    budgets.check([better, ENTRY | {"preset": "new"}, ENTRY | {"target": "h100x1"}], tmp_path)
    refused = {"preset": "toys", "target": "v5e:2x2", "refused": "why"}
    assert budgets.worse(ENTRY, refused) == budgets.worse(refused, refused) == []


def test_programs_without_a_state_have_budgets_too(tmp_path):
    part = {name: value for name, value in ENTRY.items() if name != "state_leaves"}
    budgets.path_of(tmp_path, "v5e:2x2").write_text(json.dumps([part]))
    budgets.check([part | {"aliased_leaves": 0}], tmp_path)
    with pytest.raises(InputError, match="traffic_bytes 2e"):
        budgets.check([part | {"traffic_bytes": 2e6}], tmp_path)


def test_a_damaged_budget_is_refused(tmp_path):
    budgets.path_of(tmp_path, "v5e:2x2").write_text("[{}]")
    with pytest.raises(InputError, match="v5e_2x2\\.json cannot be read"):
        budgets.check([ENTRY], tmp_path)


def test_stored_entries_replace_those_of_their_presets(tmp_path):
    budgets.write([ENTRY, ENTRY | {"target": "h100x1"}], tmp_path)
    budgets.write([ENTRY | {"padding": 0.0}, ENTRY | {"preset": "new"}], tmp_path)
    found = budgets.read(tmp_path, "v5e:2x2")
    assert list(found) == ["toys", "new"] and found["toys"]["padding"] == 0.0
    assert list(budgets.read(tmp_path, "h100x1")) == ["toys"]
