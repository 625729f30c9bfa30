"""Programs beside the steps: that they lower from shapes alone, and what their StableHLO says."""

import dataclasses
import functools
import inspect
import re
import types

import jax
import numpy as np
import pytest

from configs import motion_vits
from experiments.aot import parts, targets
from socialjepa_jax import config
from socialjepa_jax.alignment import neighbourhoods
from socialjepa_jax.alignment.distances import on_accelerator
from socialjepa_jax.alignment.moments import BLOCK_ROWS
from socialjepa_jax.data import MotionData
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.data.toys import moving
from socialjepa_jax.errors import InputError
from socialjepa_jax.sigreg import epps_pulley

# Small sizes at which products still outweigh elementwise work.
SMALL = {
    "moments_1m_1024": {"rows": 500, "dim": 64},
    "moments_50k_384": {"rows": 40, "dim": 64},
    "dsc_50k_384": {"rows": 120, "dim": 256, "bins": 8},
    "dsc_nos_50k_384": {"rows": 120, "dim": 256, "bins": 8, "ks": (3,)},
    "neighbors_50k_384": {"rows": 250, "dim": 512, "k": 3},
    "retrieval_50k_384": {"rows": 250, "dim": 256, "queries": 64},
    "motion_stream_64": {"batch": 4, "image_size": 8},
    "motion_pool_32": {"image_size": 8},
    "crops_2_6_224": {"batch": 4, "image_size": 128, "views": MultiCrop(2, 2, 64)},
    "sweep_189": {"runs": 3, "steps": 1, "batch": 32, "hidden": 64},
    **{
        name: {"rows": 64, "slices": 32, "dim": 2048, "knots": 4}
        for name in parts.PARTS
        if name.startswith("sigreg")
    },
}
# Element types of the products, and of the collectives that the program itself names.
FACTS = {
    "moments": ({"f64"}, ["f64"] * 5),
    "dsc_50k": ({"f32"}, []),
    "dsc_nos": ({"f32", "f64"}, []),  # float64 for rows that float32 leaves open
    "neighbors": ({"f64"}, []),
    "retrieval": ({"f64"}, []),
    "sigreg": ({"f32"}, ["f32"] * 2),  # real and imaginary parts
    "motion": ({"f32"}, []),
    "crops": ({"f32"}, []),
    "sweep": ({"f32"}, ["f32"] * 13),  # kernels and biases of 5 layers, SIGReg, the alignment
}
# Those that take long to trace are for the night, on all numbers of devices or on one.
NIGHTLY = {"motion_stream_64", "crops_2_6_224", "sweep_189"}
NIGHTLY |= {name for name in SMALL if "sigreg" in name} - {"sigreg_8192_512_16"}
SLOW = {"dsc_nos_50k_384": 4, "motion_pool_32": 1}


def when(name, devices):
    return [pytest.mark.nightly] * (name in NIGHTLY or SLOW.get(name) == devices)


CASES = [
    pytest.param(name, devices, marks=when(name, devices))
    for name in parts.PARTS
    for devices in (1, 4)
]
each = pytest.mark.parametrize(("name", "devices"), CASES)


@functools.cache
def lowered(name, devices):
    """The small part, and its text."""
    part = parts.PARTS[name](jax.devices()[:devices], **SMALL[name])
    return part, part.program.as_text()


def products(text):
    """Lines of the products: with their precision and their types."""
    return [line for line in text.splitlines() if "stablehlo.dot" in line or "convolution" in line]


def types_of(text):
    return re.findall(r"tensor<(?:\d+x)*(\w+)>", text)


def facts(name):
    return next(FACTS[start] for start in FACTS if name.startswith(start))


@each
def test_parts_stay_on_the_devices(name, devices):
    part, text = lowered(name, devices)
    assert part.flops > 0 and f"num_partitions = {devices} " in text
    assert "custom_call" not in text and "infeed" not in text and "outfeed" not in text


@each
def test_products_are_in_the_types_that_are_meant(name, devices):
    text, kinds = lowered(name, devices)[1], facts(name)[0]
    assert set(types_of("".join(line.rpartition(" : ")[2] for line in products(text)))) == kinds
    assert ("f64" in text) == ("f64" in kinds or name.startswith("dsc"))


@each
def test_products_are_in_full_precision(name, devices):
    """By default a TPU multiplies float32 in bfloat16."""
    lines = products(lowered(name, devices)[1])
    assert lines and all("precision = [HIGHEST, HIGHEST]" in line for line in lines)


@each
def test_collectives(name, devices):
    """No others than sums, and as many as the program has statistics."""
    text = lowered(name, devices)[1]
    found = re.findall(r'"stablehlo\.all_reduce"\(.*?\}\) : \((.*?)\) ->', text, re.DOTALL)
    assert types_of("".join(found)) == facts(name)[1]
    assert not re.search(r"all_gather|reduce_scatter|all_to_all|collective_permute", text)


@pytest.mark.parametrize(
    ("name", "rows"), [("dsc_50k_384", "256x256xf32"), ("neighbors_50k_384", "256x512xf64")]
)
def test_norms_are_summed_before_the_blocks(name, rows):
    """In every block they would read all rows once more."""
    before, _, blocks = lowered(name, 1)[1].partition("stablehlo.while")
    norms = re.compile(rf"stablehlo\.reduce.*dimensions = \[1\] : \(tensor<{rows}>")
    assert norms.search(before) and not norms.search(blocks)


COUNTED = (
    ("moments_1m_1024", 1), ("dsc_50k_384", 1), ("neighbors_50k_384", 1),
    ("retrieval_50k_384", 1), ("sigreg_8192_512_16", 1), ("crops_2_6_224", 4),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "devices"), [pytest.param(*case, marks=when(*case)) for case in COUNTED]
)
def test_flops_are_those_that_the_compiler_counts(name, devices):
    """Which adds elementwise work."""
    part, _ = lowered(name, devices)
    assert 1 < part.program.cost_analysis()["flops"] / part.flops < 1.08


@pytest.mark.nightly
def test_flops_of_the_sweep():
    """Three products a layer, less one of the first, and two of SIGReg; 64 rows of 8 pairs."""
    part, _ = lowered("sweep_189", 4)
    rows, hidden, slices = 2 * 32 / 4, 64, 256
    layers = 3 * (2 * hidden + 3 * hidden**2 + hidden * 2) - 2 * hidden
    expected = 3 * 2 * rows * (layers + 2 * 2 * slices)
    assert part.flops == pytest.approx(expected, rel=0.03) and part.calls == 1


def test_the_published_moments():
    part = parts.PARTS["moments_1m_1024"](jax.devices()[:4])
    shapes = [x.shape for x in jax.tree.leaves(part.program.in_avals)]
    assert shapes == [(1_000_000, 1024)] * 2
    assert part.flops == 2 * 3 * 1_000_000 * 1024**2 / 4


def test_the_moving_world_is_that_of_its_preset():
    preset = config.from_config_dict(motion_vits.get_config())
    given = {k: v.default for k, v in inspect.signature(parts.motion_stream).parameters.items()}
    assert preset.data == MotionData(image_size=given["image_size"], pool=0)
    assert preset.run.batch_size == given["batch"]
    assert len(preset.agents.seeds) == given["agents"]


class Called(Exception):
    """Carries the arguments of a call."""


def arguments(monkeypatch, module, name, call):
    """Shapes and dtypes of the arrays that the library gives to a compiled function."""

    def record(*args):
        raise Called(*args)

    monkeypatch.setattr(module, name, record)
    with jax.enable_x64(True), pytest.raises(Called) as caught:
        call()
    arrays = [
        x for x in jax.tree.leaves(caught.value.args) if isinstance(x, jax.Array | np.ndarray)
    ]
    return [(x.shape, str(x.dtype)) for x in arrays]


def given(name):
    avals = jax.tree.leaves(lowered(name, 1)[0].program.in_avals)
    return [(x.shape, str(x.dtype)) for x in avals if not getattr(x, "weak_type", False)]


@pytest.mark.parametrize("name", ["dsc_50k_384", "dsc_nos_50k_384"])
def test_distances_are_given_what_the_library_gives(name, monkeypatch):
    size = SMALL[name]
    z = np.random.default_rng(0).normal(size=(size["rows"], size["dim"]))
    call = functools.partial(on_accelerator.run, z, z, size.get("ks", ()), size["bins"], None)
    expected = given(name)  # lowered before what it calls is replaced
    assert expected == arguments(monkeypatch, on_accelerator, "_sums", call)


def test_neighbours_are_given_what_the_library_gives(monkeypatch):
    nearest, retrieval = given("neighbors_50k_384"), given("retrieval_50k_384")
    z = np.random.default_rng(0).normal(size=(250, 512))
    call = functools.partial(neighbourhoods.nearest_neighbors, z, 3)
    assert nearest == arguments(monkeypatch, neighbourhoods, "_nearest_rows", call)
    z = z[:, :256]
    call = functools.partial(neighbourhoods.match_ranks, z[:64], z[:64])
    (block, dtype), *_, rows = arguments(monkeypatch, neighbourhoods, "_count_closer", call)
    assert retrieval == [(block, dtype), ((250, 256), dtype), rows]


def test_a_block_of_images_is_given_what_the_library_gives(monkeypatch):
    data = MotionData(image_size=8)
    monkeypatch.setattr(moving, "_shoot", lambda *args: (_ for _ in ()).throw(Called(*args)))
    with pytest.raises(Called) as caught:
        data.photograph(np.zeros((5, data.num_latents)), 1, jax.random.key(0))
    stage, *arrays = caught.value.args
    avals = jax.tree.leaves(lowered("motion_pool_32", 4)[0].program.in_avals)
    assert stage == data.stage and [(x.shape, x.dtype) for x in arrays] == [
        (x.shape, x.dtype) for x in avals
    ]


def temporaries(name, devices=1, **size):
    part = parts.PARTS[name](jax.devices()[:devices], **size)
    return part.program.compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("rest", [0, 100])
def test_temporaries_of_moments_do_not_grow_with_the_rows(rest):
    few, many = (temporaries("moments_1m_1024", rows=n * BLOCK_ROWS + rest, dim=8) for n in (2, 8))
    assert 0 < many == few


def test_temporaries_of_distances_do_not_grow_with_the_square_of_the_rows():
    """Blocks have fewer rows where these are longer, as from 16,384 on; latents are arguments."""
    few, many = (temporaries("dsc_50k_384", rows=n, dim=1, bins=8) for n in (1 << 14, 1 << 16))
    assert 0 < many < 1.1 * few


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("moments_1m_1024", {"rows": 10}, "rows=10 must be a multiple of 4"),
        ("sigreg_512_512_16", {"rows": 10}, "batch_size=10 cannot be split over 4"),
        ("motion_stream_64", {"batch": 7}, "batch_size=7 cannot be split over 2"),
        ("crops_2_6_224", {"batch": 10}, "batch_size=10 cannot be split over 4"),
        ("sweep_189", {"batch": 10}, "batch_size=10 cannot be split over 4"),
    ],
)
def test_what_cannot_be_split_is_refused(name, size, message):
    with pytest.raises(InputError, match=message):
        parts.PARTS[name](jax.devices()[:4], **size)


def test_calls_are_positive():
    with pytest.raises(InputError, match="calls=0 must be > 0"):
        dataclasses.replace(lowered("retrieval_50k_384", 1)[0], calls=0)


def test_programs_for_accelerators_have_their_blocks():
    """SIGReg of 1,024 x 64 fits an accelerator's block and not a CPU's cache."""
    u = jax.ShapeDtypeStruct((1024, 64), np.float32)

    def more_blocks(platform):
        with targets.traced_for([types.SimpleNamespace(platform=platform)]):
            return int(re.search(r"length=(\d+)", str(jax.make_jaxpr(epps_pulley)(u)))[1])

    assert [more_blocks(p) for p in ("cpu", "tpu", "cuda", "cpu")] == [1, 0, 0, 1]
    with pytest.raises(Called), targets.traced_for([types.SimpleNamespace(platform="tpu")]):
        assert jax.default_backend() == "tpu"
        raise Called
    assert jax.default_backend() == "cpu"
