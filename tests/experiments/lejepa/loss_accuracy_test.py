"""The correlation of loss and accuracy, on made rows and end to end."""

import json

import jax
import numpy as np
import pytest

from experiments import reproduce
from experiments.lejepa import loss_accuracy


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
