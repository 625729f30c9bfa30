"""Protocols, splits, tables and cells: what they hold and what they refuse."""

import dataclasses

import numpy as np
import pytest

from socialjepa_jax.data import base, pair_views
from socialjepa_jax.errors import InputError
from tests.data import tables


def test_cells_number_the_joint_factors():
    data = pair_views(tables.table(), base.Protocol("rig", (0, 180)), base.Splits(1, 0.25), "grid")
    cells = data.cells(("category", "elevation", "lighting"))
    assert cells.dtype == np.int64
    keys = list(zip(data.labels, data.factor("elevation"), data.factor("lighting")))
    assert len(set(zip(keys, cells.tolist()))) == len(set(keys)) == 8
    assert set(cells.tolist()) == set(range(8))
    assert set(data.cells(()).tolist()) == {0}
    with pytest.raises(InputError, match="colour"):
        data.factor("colour")


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"kind": "ring"}, "kind"),
        ({"azimuths": ()}, "camera"),
        ({"azimuths": (0, 360)}, "azimuths=360"),
        ({"azimuths": (20, 20)}, "distinct"),
        ({"kind": "rig", "sector": (90, 90)}, "sector"),
        ({"kind": "rig", "sector": (0, 361)}, "sector"),
        ({"kind": "rig", "sector": (-10, 90)}, "sector"),
    ],
)
def test_bad_protocols_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        base.Protocol(**fields)


@pytest.mark.parametrize(
    "fields", [{"test_instances": -1}, {"test_states": 0.0}, {"test_states": float("nan")}]
)
def test_bad_splits_are_refused(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        base.Splits(**fields)


@pytest.mark.parametrize(
    "column, value, message",
    [(0, 2, "category=2"), (1, -1, "instance=-1"), (2, 360, "azimuth=360"), (4, -3, "lighting")],
)
def test_factors_out_of_range_are_refused(column, value, message):
    factors = tables.table().factors.copy()
    factors[7, column] = value
    with pytest.raises(InputError, match=message):
        dataclasses.replace(tables.table(), factors=factors)


def test_tables_of_another_form_are_refused():
    table = tables.table()
    for change, message in [
        ({"images": table.images[..., 0]}, "uint8"),
        ({"images": table.images.astype(float)}, "uint8"),
        ({"factors": table.factors[:-1]}, "one row per image"),
        ({"factors": table.factors.astype(float)}, "integers"),
        ({"factor_names": ("category", "instance", "azimuth", "a", "a")}, "distinct"),
        ({"factor_names": ("category", "instance", "angle", "a", "b")}, "'azimuth'"),
    ]:
        with pytest.raises(InputError, match=message):
            dataclasses.replace(table, **change)
