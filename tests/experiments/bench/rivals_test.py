"""The bench of objectives: how images are counted, and that its losses are those of NumPy."""

import json
import pathlib

import jax
import numpy as np
import pytest

from experiments.bench import rivals
from experiments.bench.vit import TI, TINY
from experiments.rivals.methods import METHODS
from tests.objectives import rivals_oracle as oracle

ROOT = pathlib.Path(__file__).parents[3]
STORED = json.loads((ROOT / "tests" / "golden" / "rivals" / "bench.json").read_text())["rows"]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("ijepa", 3 / 3 + 1),  # a third of the patches, and the target encoder's whole image
        ("masked_lejepa", 3 / 3 + 3),
        ("mae", 3 / 4),
        ("autoencoder", 3),
        ("simclr", 3 * 2),
        ("moco", 3 * 2 + 2),
        ("lejepa", 3 * (2 + 2 / 4)),  # two local crops of a quarter of the pixels
        ("swav", 3 * (2 + 2 / 4)),
        ("dino", 3 * (2 + 2 / 4) + 2),
    ],
)
def test_images_count_three_times_with_a_gradient_and_once_without(name, count):
    assert rivals.forwarded(rivals.sized(name, TI)) == pytest.approx(count)


@pytest.mark.parametrize("name", METHODS)
def test_every_objective_takes_the_encoder_of_the_bench(name):
    objective = rivals.sized(name, TINY)
    assert objective.kind == name
    params, _ = jax.eval_shape(objective.init, jax.random.key(0))
    widths = {leaf.shape[-1] for leaf in jax.tree.leaves(params["encoder"])}
    assert TINY.width in widths and TI.width not in widths


def test_the_measured_losses_are_the_published_ones():
    arrays = {name: [np.float64(x) for x in a] for name, a in rivals._embeddings(6, 5).items()}
    ours = {name: float(rivals.OURS[name](*a)) for name, a in rivals._embeddings(6, 5).items()}
    (z,) = arrays["simclr"]
    assert ours["simclr"] == pytest.approx(oracle.nt_xent(z[0], z[1], 0.5), rel=2e-6)
    student, teacher = arrays["dino"]
    expected = oracle.cross_view_loss(student, teacher, np.zeros(5), 0.04)
    assert ours["dino"] == pytest.approx(expected, rel=2e-6)
    z, prototypes = arrays["swav"]
    targets = oracle.assignments(z, prototypes, (0, 1), 0.05)
    expected = oracle.swap_loss(z, prototypes, targets, (0, 1), 0.1)
    assert ours["swav"] == pytest.approx(expected, rel=2e-6)


def test_the_documents_have_the_stored_figures():
    docs = (ROOT / "docs" / "benchmarks.md").read_text()
    steps, losses = {}, {}
    for row in STORED:
        name, speed = row["name"].split(":")[0], f"{row['value']:.2f}"
        ours, other = row["note"].split(", ")
        of_step = row["name"].endswith("ijepa")
        (steps if of_step else losses)[name] = row["value"]
        shown = (ours.split()[0], other.split()[0]) if of_step else (ours, other[len("lightly ") :])
        assert "| " + " | ".join([name, *shown, speed]) + " |" in docs
    assert steps.keys() == METHODS.keys() and losses.keys() == rivals.OURS.keys()
    slowest = f"slower than {min(steps.values()):.2f} of I-JEPA"
    assert min(steps, key=steps.get) == "mae" and min(steps.values()) > rivals.SLOWEST
    assert slowest in docs and slowest in rivals.__doc__
    expected = (f"{losses[n]:.2g} ({title})" for n, title in
                (("simclr", "SimCLR"), ("dino", "DINO"), ("swav", "SwAV")))  # fmt: skip
    assert all(text in rivals.__doc__ for text in expected)
