"""Rows of the comparison of paradigms on which every claim holds."""

import numpy as np

from experiments import findings
from experiments.rivals.methods import PIXELS
from experiments.rivals.tables.entrants import ENTRANTS, RIVALS
from experiments.rivals.tables.paradigms_claims import ABOVE, PUBLISHED

MEASURES = (
    "area", "dimensions", "r2", "dsc", "nos@10", "kappa_effective", "rankme", "r2_beyond",
    "probe_own", "probe_transferred", "probe_regression", "dsc_no_map", "nos@10_no_map",
)  # fmt: skip
R2 = {name: 0.5 for name in RIVALS} | {
    "ijepa": 0.9, "mae": 0.8, "simclr": 0.7, "autoencoder": 0.6, "moco": 0.95,
}  # fmt: skip
AREA = {name: 0.4 if name in ABOVE else 0.3 for name in RIVALS}
STEP = 100


def cell(value, pairs=9):
    values = value + 0.001 * np.arange(9.0).reshape(3, 3) - 0.004
    values = values if pairs == 9 else np.full((1, 1), value)
    return {"pairs": values.tolist(), "without": [value, value]}


def rows_of(name, flops=1.0, untrained=0.2, **values):
    """A method's rows; `values` of trained agents by the measure's name."""
    own = dict.fromkeys(MEASURES, 0.5) | values
    kinds = {"trained": own, "untrained": {**own, "area": untrained, "r2_beyond": own["r2_beyond"]}}
    rows = [{"method": name, "row": kind, **{m: cell(v) for m, v in of.items()}}
            for kind, of in kinds.items()]  # fmt: skip
    published = {m: cell(v, 1) for m, v in own.items()} | {"area": cell(values["published"], 1)}
    rows.append({"method": name, "row": PUBLISHED, **published})
    rows.append({"method": name, "row": "cost", "flops": flops, "chosen": 2,
                 "images_per_second": 100.0})  # fmt: skip
    for part in (1, 2, 3):  # the area grows to that of the end
        grid = np.full((3, 3), own["area"] * part / 3).tolist()
        rows.append({"method": name, "row": "checkpoint", "step": STEP * part, "area": grid,
                     "r2": grid, "probe_own": [0.1 * part] * 6})  # fmt: skip
    return rows


def made(change=None, pixels=20.0):
    """Rows of all methods on which every claim holds, but for the change of one method."""
    rows = [{"method": PIXELS, "row": "pixel_pca", **{m: cell(pixels, 1) for m in MEASURES}}]
    for k, name in enumerate(ENTRANTS):
        area, r2 = AREA.get(name, 0.3) + 0.001 * k, R2.get(name, 0.5)
        own = {"area": area, "published": area - 0.05, "r2": r2, "rankme": 10 * (1 - r2) + 1e-3 * k,
               "dimensions": 10.0 + k % 3, "probe_transferred": 0.3, "probe_own": 0.5,
               "dsc": 0.5 + 1e-3 * k, "nos@10": 0.5 - 1e-3 * k}  # fmt: skip
        own |= {"supervised": {"probe_own": 0.9}, "vicreg_masked": {"probe_own": 0.4}}.get(name, {})
        rows += rows_of(name, **(own | (change or {}).get(name, {})))
    return rows


def with_trials(change=None, points=None, trials=None):
    """Rows of all methods; `points` and `trials` change I-JEPA's checkpoints and trials."""
    rows = made(change)
    extra = {"dsc": 0.4, "nos@10": 0.6, "kappa_effective": 20.0}
    for row in findings.select(rows, row="checkpoint"):
        row |= {key: np.full((3, 3), value).tolist() for key, value in extra.items()}
        row |= {"rankme": [11.0, 12.0, 13.0] * 2}
    for row, new in zip(findings.select(rows, method="ijepa", row="checkpoint"), points or ()):
        row |= new
    for name in ENTRANTS:
        scores = trials if trials and name == "ijepa" else (0.6, 0.57, 0.55)
        rows += [
            {"method": name, "row": "trial", "trial": k, "learning_rate": 0.5**k,
             "temperature": 0.1, "accuracy": score}
            for k, score in enumerate(scores)
        ]  # fmt: skip
    return rows
