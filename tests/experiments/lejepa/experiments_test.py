"""What the LeJEPA experiments conclude from rows, and one of them end to end."""

import json

import jax
import numpy as np
import pytest

from experiments import reproduce
from experiments.lejepa import ablations, lambda_views, loss_accuracy, runs
from socialjepa_jax.errors import InputError
from socialjepa_jax.report.papers import lejepa as paper


@pytest.fixture
def quick_compilation():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.nightly
def test_a_sweep_of_small_learners(quick_compilation, tmp_path):
    """All lambdas are agents of one program, and each is trained with its own."""
    reproduce.reproduce(["lejepa_loss_accuracy"], "smoke", tmp_path)
    found = json.loads((tmp_path / "lejepa_loss_accuracy.json").read_text())
    rows = found["rows"]
    assert [row["lambda"] for row in rows] == [0.02, 0.05]
    for row in rows:
        expected = (1 - row["lambda"]) * row["prediction"] + row["lambda"] * row["sigreg"]
        np.testing.assert_allclose(row["loss"], expected, rtol=1e-5)
        assert 0 <= row["accuracy"] <= 1 and 0 <= row["objects"] <= 1
    assert rows[0]["accuracy_untrained"] == rows[1]["accuracy_untrained"]  # the same seed
    assert (tmp_path / "lejepa_loss_accuracy_plane_objects.png").exists()


def made_rows(alpha):
    """Runs whose accuracy falls exactly with loss / lambda^alpha."""
    rng = np.random.default_rng(0)
    rows = []
    for weight in (0.01, 0.05, 0.2):
        for _ in range(12):
            quality = rng.uniform()
            loss = float((2 - quality) * weight**alpha)
            scores = {"accuracy": quality, "objects": quality}
            rows.append(
                {"lambda": weight, "loss": loss, "prediction": loss, "sigreg": loss, **scores}
            )
    return rows


def test_the_scaling_that_made_the_rows_is_found():
    rows = made_rows(0.4)
    assert loss_accuracy.correlation(rows, "accuracy", 0.4) == pytest.approx(1.0)
    assert loss_accuracy.correlation(rows, "accuracy", 0.0) < 0.95
    claims = {c.id: c for c in loss_accuracy._claims(rows, "accuracy")}
    assert claims["accuracy/best alpha"].ours == 0.4
    assert claims["accuracy/best alpha"].agrees
    assert claims["accuracy/Spearman within one lambda"].ours == pytest.approx(1.0)


def test_a_plateau_that_moves_with_the_views_agrees():
    best = {2: 0.01, 4: 0.02, 8: 0.05}
    rows = [
        {
            "views": views,
            "lambda": weight,
            "accuracy": 0.8 - 0.01 * abs(np.log(weight / peak)),
            "accuracy_untrained": 0.4,
        }
        for views, peak in best.items()
        for weight in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
    ]
    claims = lambda_views._claims(rows, "accuracy")
    assert all(claim.agrees for claim in claims[:3])
    assert "0.05 at 8 views" in claims[1].paper and "0.05 at 8 views" in claims[1].note


def test_contrasts_are_those_of_the_printed_tables():
    found = {c.name: c.paper for c in ablations.contrasts()}
    heads = paper.HEADS
    averaged = np.mean(heads.rows["swa"][3:]) - np.mean(heads.rows["plain"][3:])
    assert found["4/averaged centres over online, no predictor"] == pytest.approx(averaged / 100)
    two, one = (72.26 + 74.24) / 2, (53.06 + 64.46) / 2
    assert found["1b/two global views over one"] == pytest.approx((two - one) / 100)
    assert found["1c/largest batch over smallest"] == pytest.approx(0.0252)


def test_every_variant_can_be_built_and_equal_ones_coincide():
    budget = runs.BUDGETS["cpu"]
    for scale in ("cpu", "gpu"):
        made = {
            (runs.learner(budget, 3, **v.changes(budget, 3)), v.batch_factor)
            for v in ablations.variants(scale)
        }
        assert len(made) == len(ablations.variants(scale)) - 5


def test_photographs_must_exist(tmp_path):
    with pytest.raises(InputError, match=r"--eth80=nowhere\.npz"):
        reproduce.reproduce(["lejepa_ablations"], "smoke", tmp_path, eth80="nowhere.npz")
