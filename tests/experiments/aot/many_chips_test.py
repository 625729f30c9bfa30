"""Bounds of steps on many chips, from certificates whose needs are known lines."""

import dataclasses

import pytest

from experiments.aot import many_chips, targets
from experiments.bench import links
from socialjepa_jax.errors import InputError

FLOPS, FIXED, IMAGE, GRADIENT = 2e10, 3e9, 4e8, 9e7
SUM = {"kind": "all-reduce", "types": ["f32"], "group": 4, "size": GRADIENT / 2, "times": 20}


def entry(target, chips, batch, agents=1):
    images = batch * agents / chips
    return {
        "preset": "p", "target": target, "agents": agents, "batch_size": batch, "fits": True,
        "mesh": {"agent": 1, "data": chips}, "steps_per_call": 10,
        "flops_per_chip": FLOPS * images, "traffic_bytes": FIXED * agents + IMAGE * images,
        "collectives": [SUM, SUM | {"group": 1, "size": 1e12}],
        "seconds": {"network": 4e-3}, "hidden_seconds": 3e-3,
    }  # fmt: skip


ENTRIES = [
    entry("h100x4", 4, 256), entry("h100x8", 8, 256), entry("h100x1", 1, 256, agents=2),
    {"preset": "p", "target": "h100x2", "refused": "no"},
]  # fmt: skip


def test_needs_are_the_lines_of_programs_with_one_agent_on_a_chip():
    found = dataclasses.asdict(many_chips.fit(ENTRIES))
    found.pop("chip"), found.pop("links")
    expected = {"flops": FLOPS, "fixed": FIXED, "image": IMAGE, "gradient": GRADIENT}
    assert found == pytest.approx(expected | {"hidden": 0.75})
    with pytest.raises(InputError, match="of two batches"):
        many_chips.fit(ENTRIES[1:])


def test_bounds_are_those_of_the_equations():
    needs, chip = many_chips.fit(ENTRIES), targets.H100
    compute, memory = FLOPS * 100 / chip.flops, (FIXED + IMAGE * 100) / chip.bandwidth
    network = links.sum_seconds(GRADIENT, 512, links.Links())
    best, worst = needs.bounds(100, 512)
    assert best == pytest.approx(max(compute, memory, network))
    assert worst == pytest.approx(compute + memory + network / 4)
    assert needs.bounds(100, 1)[1] == pytest.approx(compute + memory)  # nothing to sum


def test_the_report_names_chips_rates_and_shares():
    stored = {"p": [*ENTRIES, entry("v5e:2x2", 4, 256), entry("v5e:4x4", 16, 256)], "q": []}
    head, *lines = many_chips.report(stored, {"h100": 128, "v5e": 32})
    assert len(lines) == 2 * (1 + 3) + 2 * 2 and "not run" in head
    assert lines[-1].strip() == "not certified at two batches"
    best, worst = many_chips.fit(ENTRIES).bounds(128, 512)
    (line,) = (line for line in lines if line.startswith("  512 "))
    assert f"{1e3 * best:.1f} - {1e3 * worst:.1f}" in line
    assert f"{512 * 128 / worst:,.0f} - {512 * 128 / best:,.0f}" in line
