"""Runs that go on, and claims judged on rows whose verdicts are known."""

import json

import pytest

from experiments.motion.phase import experiment, measured
from experiments.motion.phase.cells import CELLS

NAMES = {cell.name: cell for cell in CELLS}


@pytest.fixture
def runs(monkeypatch):
    """Names of the cells that were trained together and that had controls."""
    found = {"trained": [], "controls": []}

    def trained(cells, scale, num_pairs):
        found["trained"].append([cell.name for cell in cells])
        return [{"row": "trained", "cell": cell.name, "pair": 0, "state": [0.95, 0.91], "r2": 0.9}
                for cell in cells]  # fmt: skip

    def controls(cell, scale):
        found["controls"].append(cell.name)
        return [{"row": "untrained", "cell": cell.name, "state": [0.2, 0.1], "r2": 0.1}]

    monkeypatch.setattr(measured, "_trained", trained)
    monkeypatch.setattr(measured, "_controls", controls)
    monkeypatch.setattr(measured, "apart", lambda cell: [20.0] * 4)
    return found


def test_a_run_goes_on_where_it_was_interrupted(runs, tmp_path):
    weights = [cell for cell in CELLS if cell.name.startswith("weight/rho = 0.97")]
    cells, file = [*weights, NAMES["flicker/three latents/1"]], tmp_path / "rows.jsonl"
    first = measured.rows_of(cells[:2], "cpu", 1, file)
    every = measured.rows_of(cells, "cpu", 1, file)
    assert runs["trained"] == [
        [c.name for c in weights[:2]],
        [c.name for c in weights[2:]],
        [cells[-1].name],
    ]
    # The first cell of all stands for the world that the weights share.
    assert runs["controls"] == [CELLS[0].name, "flicker/three latents/1"]
    assert every[: len(first)] == first
    assert every == [json.loads(line) for line in file.read_text().splitlines()]
    assert measured.rows_of(cells, "cpu", 1, file) == every
    assert len(runs["trained"]) == 3


def test_cells_that_differ_in_lambda_alone_are_one_program_of_bounded_size(runs, tmp_path):
    weights = [cell for cell in CELLS if cell.name.startswith("weight/rho = 0.9/")]
    measured.rows_of(weights, "gpu", 3, tmp_path / "rows.jsonl")
    assert [len(names) for names in runs["trained"]] == [2, 2, 2]  # of six agents each


def test_agents_of_different_cells_and_pairs_have_seeds_of_their_own():
    for num_pairs in (1, 3):
        seeds = [s for cell in CELLS for s in measured._seeds(cell, num_pairs)]
        assert len(set(seeds)) == len(seeds) == 2 * num_pairs * len(CELLS)


def test_a_cell_is_as_good_as_its_worst_agent():
    rows = [{"row": "trained", "cell": "a", "state": [0.95, 0.92]},
            {"row": "trained", "cell": "a", "state": [0.91, 0.97]},
            {"row": "untrained", "cell": "a", "state": [0.1, 0.1]}]  # fmt: skip
    assert measured.states(rows) == {"a": 0.91}


def trained(name, state, r2=0.5):
    return {"row": "trained", "cell": name, "state": [state, 0.99], "r2": r2}


def judged(states, controls=(0.5, 0.6), r2=0.5):
    """Claims where the cells have these states, their prediction aside."""
    rows = [{"row": "apart", "cell": CELLS[0].name, "norms": [21.6, 21.5, 14.5]}]
    rows += [trained(name, state, r2) for name, state in states.items()]
    rows += [{"row": row, "cell": CELLS[0].name, "state": [0.99, value], "r2": 0.0}
             for row, value in zip(("untrained", "pixel_pca"), controls)]  # fmt: skip
    return {claim.id: claim for claim in experiment.claims(rows + experiment.judged(rows))}


RIGHT = {"weight/rho = 0.97/0.006": 0.6, "weight/rho = 0.97/0.02": 0.95,
         "weight/rho = 0.9/2": 0.99}  # the last one calibrates and does not count # fmt: skip


def test_claims_hold_where_the_rows_say_so():
    found = judged(RIGHT, r2=0.95)
    assert [claim.agrees for claim in found.values()] == [True, True, True]
    accuracy, controls, misled = found.values()
    assert accuracy.ours == 1.0 and "2 cells, of which 0.50 are identified" in accuracy.note
    assert controls.ours == 0.6 and "pixel_pca" in controls.note
    assert misled.ours == 1.0 and "1 of 1 such pairs: weight/rho = 0.97/0.006" in misled.note


def test_claims_fail_where_the_rows_say_so():
    wrong = judged({**RIGHT, "weight/rho = 0.97/0.02": 0.89}, controls=(0.95, 0.2))
    assert [claim.agrees for claim in wrong.values()] == [False, False, False]
    accuracy = wrong["held-out cells/predicted right"]
    assert accuracy.ours == 0.5 and "wrong: weight/rho = 0.97/0.02" in accuracy.note
