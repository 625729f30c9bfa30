"""The animation of README: what is drawn, and the file that is shown."""

import numpy as np
import pytest
from PIL import Image

from experiments.ledger.entries import ROOT
from experiments.motion import film
from socialjepa_jax.running import trained

SHOWN = ROOT / "docs" / "motion.gif"


def test_the_path_is_closed_and_stays_where_agents_were_trained():
    path = film.states(72)
    steps = np.linalg.norm(np.roll(path, -1, axis=0) - path, axis=1)
    assert path.shape == (72, 3) and steps.max() < 2 * np.median(steps)
    assert np.abs(path).max() < 2


def test_the_file_is_small_and_moves():
    assert SHOWN.stat().st_size < 2_000_000
    with Image.open(SHOWN) as shown:
        assert shown.n_frames == film.FRAMES and shown.info["loop"] == 0
        first = np.asarray(shown.convert("RGB"), int)
        shown.seek(film.FRAMES // 3)
        later = np.asarray(shown.convert("RGB"), int)
    width = first.shape[1] // 4
    for panel in range(4):
        part = np.s_[:, panel * width : (panel + 1) * width]
        assert np.abs(first[part] - later[part]).max() > 100


@pytest.mark.nightly
def test_w_brings_the_paths_together():
    found = film.paths(trained.load("motion_lejepa"), frames=12, count=200)
    apart, together = (
        np.linalg.norm(path[0] - path[1], axis=1).mean() for path in (found.before, found.after)
    )
    assert together < 0.25 < 1.0 < apart
    assert found.shots.shape == (2, 12, 96, 96, 3)
    assert film.animation(found).startswith(b"GIF89a")
