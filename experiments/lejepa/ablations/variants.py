"""Settings of `lejepa_ablations`: the rows of the tables, each as a change of the default."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from experiments.lejepa import runs as runs_lib
from experiments.lejepa.runs import Budget
from socialjepa_jax.sigreg import Quadrature

TABLES = {
    "1a": "integration domain, knots, slices",
    "1b": "views",
    "1c": "batch size",
    "1d": "projection",
    "1e": "registers",
    "4": "predictor, averaging, projector",
}


@dataclass(frozen=True)
class Variant:
    """A setting, which is a row of a table.

    Attributes:
        table: key of `TABLES`.
        label: the setting, as columns of the row.
        changes: fields of the objective, as functions of the budget and the number of channels.
        batch_factor: on the budget's batch size.
    """

    table: str
    label: Mapping[str, float | str]
    changes: Callable[[Budget, int], dict[str, Any]] = field(default=lambda budget, channels: {})
    batch_factor: float = 1.0


def _fixed(table: str, label: Mapping[str, float | str], **changes: Any) -> Variant:
    return Variant(table, label, lambda budget, channels: changes)


def _slices(factor: float) -> Variant:
    return Variant(
        "1a",
        {"t_max": 3.0, "knots": 17, "slices": factor},
        lambda budget, channels: {"sigreg_slices": int(factor * budget.slices)},
    )


def _views(large: int, count: int) -> Variant:
    return Variant(
        "1b",
        {"global views": large, "views": count},
        lambda budget, channels: {"views": runs_lib.views(budget, channels, large, count - large)},
    )


def _projection(factor: float) -> Variant:
    return Variant(
        "1d",
        {"dimension over width": factor},
        lambda budget, channels: {"projector_dim": int(factor * budget.width)},
    )


def _registers(count: int) -> Variant:
    def change(budget: Budget, channels: int) -> dict[str, Any]:
        encoder = runs_lib.learner(budget, channels).encoder
        return {"encoder": replace(encoder, registers=count)}

    return Variant("1e", {"registers": count}, change)


def _head(predictor: bool, swa: bool, layers: int) -> Variant:
    return _fixed(
        "4",
        {"predictor": predictor, "swa": swa, "projector layers": layers},
        predictor_layers=2 * predictor,
        centers="swa" if swa else "online",
        projector_layers=layers,
    )


def variants(scale: str) -> list[Variant]:
    """The rows of all tables."""
    if scale == "smoke":
        return [_fixed("1a", {"t_max": 3.0, "knots": 17, "slices": 1.0}), _head(True, True, 2)]
    full = scale != "cpu"
    rows = [
        _fixed("1a", {"t_max": t, "knots": k, "slices": 1.0}, quadrature=Quadrature(t, k))
        for t in (1.0, 3.0, 5.0)
        for k in ((5, 17, 41) if full else (5, 17))
    ]
    rows += [_slices(factor) for factor in (0.125, 4.0)]
    counts = ((1, 4), (2, 4), (1, 8), (2, 8), (4, 8))
    rows += [_views(*pair) for pair in counts]
    rows += [
        Variant("1c", {"batch over default": factor}, batch_factor=factor)
        for factor in (0.5, 1.0, 2.0)
    ]
    rows += [_projection(factor) for factor in (0.25, 0.5, 2.0)]
    rows += [_registers(count) for count in ((0, 1, 2, 4, 8) if full else (0, 1, 4))]
    rows += [
        _head(predictor, swa, layers)
        for predictor in (False, True)
        for swa in (False, True)
        for layers in ((1, 2, 3) if full else (1, 3))
    ]
    return rows
