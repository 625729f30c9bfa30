"""The ablations show what the text says of them."""

import numpy as np
import pytest

from socialjepa_jax.report.papers import lejepa as paper

TABLES = (
    paper.QUADRATURE, paper.VIEWS, paper.BATCH_SIZE, paper.PROJECTOR, paper.REGISTERS, paper.HEADS,
    paper.LAMBDA_VIEWS,
)  # fmt: skip


def values(table):
    return np.array(list(table.rows.values()), float)  # None becomes NaN


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_rectangular_accuracies(table):
    printed = values(table)
    assert printed.shape == (len(table.rows), len(table.columns))
    finite = printed[np.isfinite(printed)]
    assert np.all((finite > 50) & (finite < 90))


def test_more_slices_are_better_in_every_cell():
    quadrature, projector = values(paper.QUADRATURE), values(paper.PROJECTOR)
    assert np.all(quadrature[1::2] > quadrature[::2])
    assert np.all(projector[:, 2:] > projector[:, :2])


def test_quadrature_matters_little():
    assert np.ptp(values(paper.QUADRATURE)[2:]) < 1.5 and np.ptp(values(paper.QUADRATURE)) < 3.3


def test_more_views_are_better_with_one_global_view():
    assert np.all(np.diff(values(paper.VIEWS)[:, 0]) > 0)


def test_wider_projections_are_not_better():
    assert np.all(np.diff(values(paper.PROJECTOR)[:, :3], axis=0) < 0)


def test_registers_are_not_needed():
    assert np.all(np.ptp(values(paper.REGISTERS), axis=1) < 0.3)


def test_weight_averaging_helps_vision_transformers():
    rows = {name: paper.HEADS.row(name) for name in paper.HEADS.rows}
    vits = [column for column in paper.HEADS.columns if column.startswith("vit")]
    gains = [rows["swa"][column] - rows["plain"][column] for column in vits]
    assert len(gains) == 6 and min(gains) > 0


def test_the_best_lambda_grows_with_the_number_of_views():
    table = values(paper.LAMBDA_VIEWS)
    best = [float(paper.LAMBDA_VIEWS.columns[i]) for i in np.nanargmax(table, axis=1)]
    assert best == [0.01, 0.02, paper.DEFAULT_LAMBDA]


def test_cells_are_empty_only_at_large_lambdas_with_few_views():
    empty = np.isnan(values(paper.LAMBDA_VIEWS))
    assert np.all(np.diff(empty.astype(int), axis=1) >= 0)
    assert np.all(np.diff(empty.sum(axis=1)) < 0)
