"""Certificates of steps: sizes, bounds and tables; a whole one on CPU devices."""

import contextlib
import dataclasses
import math

import jax
import pytest

from configs import smoke, toys_ijepa
from experiments.aot import abstract, certify, facts, table, targets
from experiments.aot.programs import Collective
from experiments.aot.targets import Chip, Target
from socialjepa_jax import build, config
from socialjepa_jax.errors import InputError
from tests.data import kinds

CHIP = Chip("test", flops=1e12, memory=1e6, bandwidth=1e9, link=1e8)


@dataclasses.dataclass(frozen=True)
class Here(Target):
    """CPU devices of this process, as a target."""

    def devices(self):
        return jax.devices()[: self.size]


HERE = Here("here", CHIP, (2,))
FACTS = {
    "flops_per_chip": 4e9,
    "traffic_bytes": 2e6,
    "steps_per_call": 10,
    "argument_bytes": 600_000,
    "output_bytes": 500_000,
    "aliased_bytes": 450_000,
    "temporary_bytes": 350_000,
    "collectives": [dataclasses.asdict(Collective("all-reduce", 100_000, 4, ("f32",), False, 10))],
}


@pytest.fixture(scope="module")
def tiny():
    return config.from_config_dict(smoke.shrink(toys_ijepa.get_config()))


@pytest.fixture(scope="module")
def certificate(tiny):
    return certify.certify(tiny, HERE)


def test_a_step_is_certified_from_shapes_alone(certificate, tiny):
    found, run = certificate, tiny.run
    assert "refused" not in found
    assert found["aliased_leaves"] == found["donated_leaves"] == found["state_leaves"] > 50
    assert found["aliased_bytes"] == found["state_bytes"]
    assert found["host_transfers"] == [] and found["float32_outside"] == []
    assert {t for c in found["collectives"] for t in c["types"]} <= {"f32", "s32", "u32"}
    assert found["mesh"] == {"agent": 1, "data": 2} and found["agents"] == 3
    state = build.build(tiny, devices=jax.devices()[:1]).abstract_state
    assert found["state_bytes"] == sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state))
    assert found["batch_size"] == run.batch_size
    assert min(found["seconds"].values()) > 0
    pixels = 3 * abstract.states_of(tiny)[0] * tiny.data.image_size**2
    assert found["argument_bytes"] > found["state_bytes"] + pixels
    assert found["traffic_bytes"] > found["state_bytes"]


def test_the_trainer_is_that_of_a_run_on_accelerators(tiny):
    run = dataclasses.replace(tiny.run, agent_map="vmap")
    tiny = dataclasses.replace(tiny, run=run)
    ours = abstract.lower(tiny, jax.devices()[:2]).trainer
    assert ours == build.build(tiny, devices=jax.devices()[:2]).trainer


def test_what_cannot_be_split_is_refused_with_its_message(tiny):
    found = certify.certify(tiny, dataclasses.replace(HERE, sides=(5,)))
    assert "batch_size=8 cannot be split over 5 devices" in found["refused"]
    cells = table.row({"preset": "p", "target": "t"} | found)
    assert len(cells) == len(table.HEAD) and cells[2].startswith("refused: batch_size=8")


def test_bounds_follow_from_the_data_sheet():
    found = facts.bounds(FACTS, HERE)
    sent = 2 * 3 / 4 * 100_000  # a step's, around a ring of four
    seconds = {"compute": 4e-3, "memory": 2e-3, "network": sent / 1e8}
    assert found["seconds"] == pytest.approx(seconds)
    assert found["mfu"] == pytest.approx([4 / 7.5, 1.0]) and found["bound_by"] == "compute"
    assert found["needed_bytes"] == 1_000_000 and found["fits"]
    assert not facts.bounds(FACTS | {"temporary_bytes": 350_001}, HERE)["fits"]


@pytest.mark.parametrize(
    ("kind", "group", "share"),
    [("all-reduce", 4, 1.5), ("all-gather", 4, 0.75), ("reduce-scatter", 4, 3),
     ("all-to-all", 2, 0.5), ("collective-permute", 4, 1), ("all-reduce", 1, 0)],
)  # fmt: skip
def test_bytes_on_the_network(kind, group, share):
    found = facts.network_bytes(Collective(kind, 80, group, ("f32",), False, 3))
    assert found == share * 80 * 3


def test_links_of_a_slice():
    """A corner of 2 x 2 chips has two links of 50 GB/s; in 16 x 16 both directions are rings."""
    sends = {name: targets.parse(name) for name in certify.TARGETS}
    rates = {name: t.chip.sends(t.sides) for name, t in sends.items()}
    assert rates == {
        "v5e:2x2": 100e9, "v5e:16x16": 200e9, "h100x1": 450e9, "h100x4": 450e9, "h100x8": 450e9,
    }  # fmt: skip
    assert [t.size for t in sends.values()] == [4, 256, 1, 4, 8]


@pytest.mark.parametrize("name", ["v5p:2x2", "h100x9", "v5e:2", "h100", ""])
def test_unknown_targets_are_refused(name):
    with pytest.raises(InputError, match=f"--targets={name} must be"):
        targets.parse(name)


@pytest.mark.parametrize(
    ("name", "extra"),
    [("v5e:2x2", "libtpu.*aot-tpu"), ("h100x1", "jax_plugins.xla_cuda12.*aot-cuda")],
)
def test_a_missing_compiler_is_named_with_its_extra(name, extra, monkeypatch):
    monkeypatch.setattr(targets, "_installed", lambda module: False)
    with pytest.raises(InputError, match=f"--targets={name} needs {extra}"):
        targets.parse(name).devices()


@pytest.mark.parametrize("limit", [7, 8, 63, 64, 100, 1000, 4099])
@pytest.mark.parametrize("fixed", [0, 3])
def test_the_largest_batch_is_found_on_a_line(limit, fixed):
    found = certify.largest(lambda batch: fixed + batch, limit, 64, 8)
    assert found % 8 == 0 and found + fixed <= limit
    assert found + fixed >= certify.FULL * limit or found + fixed + 8 > limit


def test_the_largest_batch_is_found_where_the_compiler_refuses_large_ones():
    needs = lambda batch: math.inf if batch > 500 else 10 + batch * (1 + batch / 1e4)  # noqa: E731
    tried = []
    found = certify.largest(lambda b: tried.append(b) or needs(b), 400, 64, 8)
    assert certify.FULL * 400 < needs(found) <= 400 and len(tried) <= certify.COMPILATIONS


def test_states_are_counted_without_rendering():
    """5 categories x 10 objects x 9 elevations x 6 lights; training takes 8 objects and 80 %.

    Both draws are independent, so that their overlap is 108 of 540 states, with a deviation of 8.
    """
    for name in ("toys_ijepa_vits", "smallnorb_ijepa"):
        states, trained = abstract.states_of(abstract.experiment_of(name))
        assert states == 5 * 10 * 9 * 6 and abs(trained - 5 * 8 * 9 * 6 * 0.8) < 3 * 8


def test_the_sources_of_the_presets():
    vits = abstract.abstract_source(abstract.experiment_of("toys_ijepa_vits"))
    assert vits.pixels.shape == (2, 2700, 392, 128) and vits.rows.shape == (2, 1734)
    stream = abstract.abstract_source(abstract.experiment_of("folder_ijepa"))
    assert stream.images.shape == (3, 25, 64, 48, 48, 3)
    lejepa = abstract.experiment_of("lejepa_vits").objective
    assert lejepa.views.local_size == 96 and lejepa.encoder.dtype == "bfloat16"
    with pytest.raises(InputError, match="--presets='nothing' must be one of"):
        abstract.experiment_of("nothing")


def test_the_source_of_a_step_is_that_of_a_run(tmp_path):
    """The same arrays and the same settings, or another program would be certified."""
    given = kinds.experiment("two views", tmp_path / "data")
    dataset, parts = given.data.load(tmp_path), build.build(given, devices=jax.devices()[:1])
    with contextlib.closing(build.open_feed(given, dataset, parts, tmp_path, tmp_path)) as feed:
        expected = feed.at(0)
    found = abstract.abstract_source(given)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)


def cells_of(text, head):
    """The cells of the first row of the table with this head, by column."""
    lines = text.splitlines()
    row = lines[lines.index(f"| {' | '.join(head)} |") + 2]
    return dict(zip(head, (cell.strip() for cell in row.strip("|").split(" | "))))


def test_the_tables_show_a_certificate(certificate):
    entry = {"preset": "p", "target": "here"} | certificate
    text = table.markdown([entry])
    low, high = entry["mfu"]
    cells = cells_of(text, table.HEAD)
    assert cells["predicted MFU"] == f"{low:.0%} - {high:.0%} ({entry['bound_by']})"
    assert cells["needed GB"].startswith(f"{entry['needed_bytes'] / 1e9:.2f}")
    cells = cells_of(text, table.PROPERTIES)
    assert cells["state MB, donated"] == f"{entry['state_bytes'] / 1e6:.1f}, all"
    assert cells["host"] == "none" and "all-reduce f32 alone" in str(cells)


@pytest.mark.parametrize("name", ["targets", "presets"])
def test_an_empty_list_is_refused(call_main, tmp_path, name, monkeypatch):
    monkeypatch.setattr(certify.jax.config, "update", lambda *_: None)
    with pytest.raises(InputError, match=f"--{name}="):
        call_main(certify, f"--{name}=", f"--out={tmp_path / 'new'}")
    assert not (tmp_path / "new").exists()
