import sys

import numpy as np
import pytest

from socialjepa_jax import alignment
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.alignment.planes import planes


def draw(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5))
    y = x @ rng.normal(size=(5, 4))
    labels = np.array(["a", "b"])[rng.integers(0, 2, 60)]
    options = {"umap": True, "seed": 0}
    return planes(alignment.fit(x, y), x, y, labels, ("x", "y"), Album(tmp_path / "p"), **options)


def test_without_umap_there_are_words_instead(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    shown = draw(tmp_path)
    assert "pip install umap-learn" in shown
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p_pca_after.png", "p_pca_before.png"]


@pytest.mark.nightly
def test_umap_is_drawn_before_and_after(tmp_path):
    assert "filled up with zeros" in draw(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} >= {"p_umap_after.png", "p_umap_before.png"}
