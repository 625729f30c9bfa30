"""Files of a small run: 3 agents behind 2 cameras, 300 states, latents of one world."""

import json
import shutil

import numpy as np
import pytest

from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.report.run import data

LABELS = ("animal", "human", "airplane", "truck", "car")
CAMERAS = (0, 1, 0)
DIM = 32
CONTROL_R2 = {
    "untrained": 0.30,
    "untrained_same_init": 0.33,
    "pixel_pca": 0.27,
    "mismatched": -0.21,
    "mismatched_cell": 0.08,
    "partialled": 0.22,
    "shared_factors": 0.18,
}


def draw(label: int, size: int, tilt: float, light: float, camera: int) -> np.ndarray:
    """An image of a simple shape that depends on all factors: u8[32, 32, 1]."""
    v, u = np.mgrid[-1:1:32j, -1:1:32j]
    turn = tilt + 2.5 * camera
    a, b = np.cos(turn) * u + np.sin(turn) * v, np.cos(turn) * v - np.sin(turn) * u
    r = 0.35 + 0.09 * size
    inside = (
        a**2 + b**2 < r**2,
        np.maximum(abs(a), 1.6 * abs(b)) < r,
        (abs(a) < r / 4) | (abs(b) < r / 4),
        (a + b < r) & (a > -r) & (b > -r),
        (a**2 + b**2 < r**2) & (a**2 + b**2 > (0.6 * r) ** 2),
    )[label]
    ground = 90 + 60 * (v > 0.2)
    shade = np.where(inside, 40 + 160 * light * (0.6 + 0.4 * a), ground)
    return np.clip(shade, 0, 255).astype(np.uint8)[..., None]


def make_dataset() -> ViewDataset:
    """5 categories x 5 objects x 4 elevations x 3 lightings."""
    grid = np.stack(np.meshgrid(*map(np.arange, (5, 5, 4, 3)), indexing="ij"), -1).reshape(-1, 4)
    images = [
        [draw(c, i, 0.35 * e + 0.3 * i, 0.4 + 0.3 * g, camera) for c, i, e, g in grid]
        for camera in (0, 1)
    ]
    instances = grid[:, 0] * 5 + grid[:, 1]
    rng = np.random.default_rng(0)
    return ViewDataset(
        name="shapes",
        images=np.array(images),
        state_ids=np.arange(300, dtype=np.int64) * 7,
        instance_ids=instances.astype(np.int32),
        labels=grid[:, 0].astype(np.int32),
        label_names=LABELS,
        factors=grid.astype(np.int32),
        factor_names=("category", "instance", "elevation", "lighting"),
        split_state=(rng.random(300) < 0.2).astype(np.int32),
        split_instance=(grid[:, 1] == 4).astype(np.int32),
        overlap=0.0,
    )


def make_latents(dataset: ViewDataset) -> np.ndarray:
    """Latents [A, N, D]: the same 12 hidden numbers through a matrix per agent, with noise."""
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(dataset.factors[:, f].max() + 1, 12)) for f in (0, 2, 3)]
    hidden = sum(p[dataset.factors[:, f]] for p, f in zip(parts, (0, 2, 3)))
    hidden = hidden + rng.normal(size=(25, 12))[dataset.instance_ids]
    mixers = rng.normal(size=(len(CAMERAS), 12, DIM)) / 4
    return np.stack([hidden @ m + 0.3 * rng.normal(size=(300, DIM)) for m in mixers])


def make_metrics() -> list[dict]:
    """Lines of metrics.jsonl: training every 50 of 1,000 steps, evaluations every 250."""
    rng = np.random.default_rng(2)
    lines = []
    for step in range(0, 1001, 50):
        if step:
            losses = {f"agent_{k}/loss": 0.9 * np.exp(-step / 300) + 0.1 + 0.01 * rng.random()
                      for k in range(3)}  # fmt: skip
            lines.append({"step": step, "time": step / 10, "kind": "train", **losses})
        if step % 250 == 0:
            found = {}
            for k in range(3):
                found[f"agent_{k}/rankme"] = 8 + step / 100 + k
                found[f"agent_{k}/feature_std"] = 0.5 + step / 4000 + k / 50
                found[f"agent_{k}/latent_norm"] = 5.0 + k
            for (i, j), top in (((0, 1), 0.4), ((0, 2), 0.6), ((1, 2), 0.38)):
                for split, less in (("instance", 0.1), ("state", 0.0)):
                    rise = 1 - np.exp(-step / 200)
                    found[f"pair_{i}_{j}/{split}/r2"] = 0.3 + (top - 0.3) * rise - less
            lines.append({"step": step, "time": step / 10, "kind": "eval", **found})
    return lines


def make_scores() -> list[dict]:
    """Rows of alignment.json, the trained ones with every back map."""
    rows = []

    def add(x: int, y: int, row: str, split: str, r2: float, back: str = "inverse") -> None:
        gain = {"inverse": 0.0, "none": 0.15, "forward": 0.25, "regression": 0.2}[back]
        metrics = {"r2": r2, "n_test": 60.0}
        if row != "shared_factors":
            nos = {f"nos@{k}": 0.9 - 0.2 * max(r2, 0) - 0.4 * k / 59 - gain / 3
                   for k in (1, 5, 10, 20, 50)}  # fmt: skip
            metrics |= {"mse": 1 - r2, "dsc": 0.4 * r2 + gain, "cka_debiased": 0.5 * r2 + gain}
            metrics |= {**nos, "kappa": float("inf"), "kappa_effective": 41.3, "rank": 31.0}
            metrics |= {"probe_own": 0.8, "probe_transferred": 0.5 + r2 / 2, "probe_raw": 0.21}
        rows.append({"x": f"agent_{x}", "y": f"agent_{y}", "row": row, "split": split,
                     "method": "ridge", "back": back, "seed": 0, "metrics": metrics})  # fmt: skip

    for i, j in ((0, 1), (0, 2), (1, 2)):
        for split, less in (("instance", 0.1), ("state", 0.0)):
            if CAMERAS[i] == CAMERAS[j]:
                add(i, j, "same_camera", split, 0.60 - less)
                continue
            for back in ("inverse", "none", "forward", "regression"):
                add(i, j, "trained", split, (0.40 if i == 0 else 0.38) - less, back)
            for row, r2 in CONTROL_R2.items():
                add(i, j, row, split, r2 - less + 0.01 * i)
    return rows


@pytest.fixture(scope="session")
def dataset() -> ViewDataset:
    """300 states of simple shapes."""
    return make_dataset()


@pytest.fixture(scope="session")
def finished_run(dataset, tmp_path_factory):
    """A complete workdir, shared by all tests: copy it before changing it."""
    workdir = tmp_path_factory.mktemp("run")
    config = {"name": "shapes_ijepa", "data": {"kind": "toys"},
              "agents": {"cameras": CAMERAS, "seeds": [0, 1, 2]},
              "alignment": {"method": "ridge", "ridge": 1.0, "kappa_max": 1e6}}  # fmt: skip
    versions = {"jax": "0.10.2", "devices": "1 x cpu (cpu)"}
    (workdir / "config.json").write_text(json.dumps(config))
    (workdir / "environment.json").write_text(json.dumps(versions))
    (workdir / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in make_metrics()))
    (workdir / "alignment.json").write_text(json.dumps({"schema": 2, "rows": make_scores()}))
    (workdir / "latents").mkdir()
    for k, z in enumerate(make_latents(dataset)):
        np.savez(
            workdir / "latents" / f"agent_{k}.npz",
            latents=z.astype(np.float32),
            state_ids=dataset.state_ids,
            split_state=dataset.split_state,
            split_instance=dataset.split_instance,
        )
    return workdir


@pytest.fixture
def workdir(finished_run, tmp_path):
    """A copy of the complete workdir that a test may change."""
    return shutil.copytree(finished_run, tmp_path / "run")


@pytest.fixture
def run(finished_run):
    """The results of the complete run."""
    return data.read_run(finished_run)
