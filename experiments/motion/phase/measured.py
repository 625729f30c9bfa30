"""What is measured in the cells of the map: the state, W, and two controls for each world.

Shape key: A agents, N states, D latents, L states.
"""

import functools
import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from absl import logging

from experiments.findings import Rows
from experiments.motion import pairs
from experiments.motion.five import apart_norms
from experiments.motion.phase.cells import CELLS, Cell
from socialjepa_jax import alignment
from socialjepa_jax.data import MotionData
from socialjepa_jax.data.toys.motion import MAX_LATENTS
from socialjepa_jax.evaluation.evidence import Encoded, Evidence
from socialjepa_jax.evaluation.latents import encode_states
from socialjepa_jax.evaluation.moving import Pixels
from socialjepa_jax.evaluation.readouts import readout_r2
from socialjepa_jax.records import RowName

FIRST_SEED = 8_000
SMALL: dict[str, Any] = {"data__pool": 64, "data__states": 64, "run__batch_size": 16}
AT_ONCE = 12  # agents of one program: bounds the memory of their images
_STILL = {"data__flicker": 0.0}


def rows_of(cells: Sequence[Cell], scale: str, num_pairs: int, file: pathlib.Path) -> Rows:
    """Measures the cells, but for those that an earlier call has added to the file.

    Args:
        cells: of the map.
        scale: "smoke" trains four steps on 64 pairs.
        num_pairs: pairs of agents of a cell.
        file: one row of JSON a line; rows are added as soon as they are known.
    """
    kept = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def missing(kind: str, cells: Iterable[Cell]) -> list[Cell]:
        known = {row["cell"] for row in kept if row["row"] == kind}
        return [cell for cell in dict.fromkeys(cells) if cell.name not in known]

    for cell in missing("apart", map(scene_of, cells)):
        kept += _added(file, [{"row": "apart", "cell": cell.name, "norms": apart(cell)}])
    groups: dict[str, list[Cell]] = {}
    for cell in missing("trained", cells):
        groups.setdefault(str(cell.changes), []).append(cell)
    for group in groups.values():
        at_once = max(1, AT_ONCE // (2 * num_pairs))
        for first in range(0, len(group), at_once):
            kept += _added(file, _trained(group[first : first + at_once], scale, num_pairs))
    for cell in missing(RowName.UNTRAINED, map(world_of, cells)):
        kept += _added(file, _controls(cell, scale))
    return kept


def scene_of(cell: Cell) -> Cell:
    """Returns the first cell with the same scene and cameras, which stands for what is seen."""
    return next(c for c in CELLS if {**c.world, **_STILL} == {**cell.world, **_STILL})


def world_of(cell: Cell) -> Cell:
    """Returns the first cell with the same world and width, which stands for the controls."""
    return next(c for c in CELLS if (c.world, c.outputs) == (cell.world, cell.outputs))


def apart(cell: Cell) -> list[float]:
    """Returns what each latent in view does to an image beside the others, by the worse camera."""
    data = pairs.experiment((0, 1), **cell.world).data
    assert isinstance(data, MotionData)
    states = np.random.default_rng(0).standard_normal((24, MAX_LATENTS))[:, : data.num_latents]
    norms = np.array([apart_norms(data, states, k) for k in (0, 1)])
    shared = len(cell.latents)
    found = norms[:, :shared].min(0).tolist()
    if cell.private:
        found.append(min(norms[k, shared + k] for k in (0, 1)))
    return [round(float(a), 1) for a in found]


def _added(file: pathlib.Path, rows: Rows) -> Rows:
    with file.open("a") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    logging.info("%s: %s", file.name, ", ".join(sorted({row["cell"] for row in rows})))
    return rows


def _seeds(cell: Cell, num_pairs: int) -> list[int]:
    """Seeds of a cell's agents, two for each pair, which no other cell has."""
    first = FIRST_SEED + 2 * num_pairs * CELLS.index(cell)
    return list(range(first, first + 2 * num_pairs))


def _changes(cell: Cell, scale: str) -> dict[str, Any]:
    small = SMALL | pairs.lasting(4) if scale == "smoke" else {}
    return cell.changes | small


def _trained(cells: Sequence[Cell], scale: str, num_pairs: int) -> Rows:
    """Trains the pairs of cells that differ in lambda alone, as agents of one program."""
    seeds = [seed for cell in cells for seed in _seeds(cell, num_pairs)]
    weights = [cell.weight for cell in cells for _ in range(2 * num_pairs)]
    chosen = pairs.experiment(seeds, **_changes(cells[0], scale))
    found = pairs.measures(pairs.run(chosen, controls=False, **{"lambda": weights}))
    of_cells = [(cell, pair) for cell in cells for pair in range(num_pairs)]
    return [
        {"row": "trained", "cell": cell.name, "pair": pair} | _summary(cell, measures)
        for (cell, pair), measures in zip(of_cells, found)
    ]


def _summary(cell: Cell, measures: dict[str, list[float]]) -> dict[str, Any]:
    """R2 of W, and of the shared latents and their mean for both agents."""
    each = {name: [round(v, 4) for v in measures[name]] for name in cell.latents}
    if cell.private:
        each |= {f"private_{k}": [round(measures[f"private_{k}"][k], 4)] for k in (0, 1)}
    state = np.mean([measures[name] for name in cell.latents], axis=0)
    return {"state": np.round(state, 4).tolist(), "r2": round(measures["r2"][0], 4), "each": each}


def _controls(cell: Cell, scale: str) -> Rows:
    """Untrained agents and principal components of pixels, as wide as the agents' latents."""
    changes = _changes(cell, scale) | {"data__pool": SMALL["data__pool"], "run__batch_size": 16}
    chosen = pairs.experiment(_seeds(cell, 1), **changes)
    run = pairs.in_memory(chosen)
    z_AND = encode_states(run.parts.trainer.encode, run.fresh, run.feed)
    encoded = Encoded(chosen, run.dataset, z_AND, Evidence(z_AND, z_AND))
    pixels = Pixels(run.dataset)
    spaces = {
        RowName.UNTRAINED: z_AND,
        RowName.PIXEL_PCA: [pixels.pca(k, cell.outputs) for k in (0, 1)],
    }
    return [
        {"row": str(row), "cell": cell.name} | _of_spaces(encoded, cell, x, y)
        for row, (x, y) in spaces.items()
    ]


def _of_spaces(encoded: Encoded, cell: Cell, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    test = encoded.split.test
    read = functools.partial(readout_r2, states_NL=encoded.states, split=encoded.split)
    r2 = alignment.evaluate(encoded.fit(x, y), x[test], y[test], neighbors=())["r2"]
    shared = range(len(cell.latents))
    state = [round(float(read(z)[list(shared)].mean()), 4) for z in (x, y)]
    return {"state": state, "r2": round(float(r2), 4)}


def norms(rows: Rows) -> dict[str, list[float]]:
    """What is seen of the latents in each cell, of the cells whose scene was rendered."""
    known = {row["cell"]: row["norms"] for row in rows if row["row"] == "apart"}
    return {c.name: known[scene_of(c).name] for c in CELLS if scene_of(c).name in known}


def states(rows: Iterable[dict[str, Any]]) -> dict[str, float]:
    """R2 of the shared state of each cell's worst trained agent."""
    found: dict[str, float] = {}
    for row in rows:
        if row["row"] == "trained":
            found[row["cell"]] = min(found.get(row["cell"], 1.0), *row["state"])
    return found
