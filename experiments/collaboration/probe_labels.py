"""How many labels a carried probe is worth, in the moving world and on the toys.

The first agent's probe is carried to the second by the inverse of W, by the reverse regression and
by the orthogonal factor of W, without a label of the second agent, and stands beside the second
agent's own probes from 1, 5, 10, 50 labels (of each class), from all, and the probe as it is. Its
label-equivalent is where the own curve reaches it. In the moving world probes are ridge readouts of
position and heading, scored by R2 on held-out states: five pairs of agents, those of `table9`. On
the toys they are logistic probes of the category on held-out objects: three pairs of I-JEPA.

Predictions, written before the runs. In the moving world every carried readout is within 0.03 of
one from all labels and worth at least 20 labels, by the inverse as by the regression; as it is, the
readout has R2 below 0. On the toys the carried probe is worth at least 5 labels a class, the
regression more than the inverse, and as it is the probe is within 0.1 of chance.

Command: python -m experiments.reproduce --only=probe_labels --out=runs/table9
Cost at --scale=cpu: 5 CPU minutes after table9, whose agents are in OUT.
Expected at --scale=cpu: 7 of 10 claims agree: the reverse regression loses at most 0.01 of R2 in
the moving world and gives 0.61 on the toys (0.64 from all labels); the inverse fails in both.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments import findings
from experiments.collaboration import methods, runs, scenes
from experiments.figures import Panel, line_panels
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.motion import pairs
from experiments.rivals import methods as rivals
from socialjepa_jax import alignment, evaluation
from socialjepa_jax.collaboration import worth
from socialjepa_jax.collaboration.logistic import fit_logistic
from socialjepa_jax.collaboration.probe import accuracy, transfer_probe
from socialjepa_jax.data.base import Splits
from socialjepa_jax.evaluation import readouts
from socialjepa_jax.evaluation.splits import Split, splits
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Row, Table

TITLES = {"inverse": "by W^-1", "regression": "by the regression", "procrustes": "by Procrustes"}
KINDS = tuple(TITLES)
COUNTS = (1, 2, 5, 10, 20, 50, 100)
STATES = (5, 10, 20, 50, 100, 200, 500)  # labels of a readout, which has four weights
STEPS = {"smoke": 25, "cpu": 200, "gpu": 2000, "paper": 2000}
Score = dict[str, Any]


def run(scale: str, out: pathlib.Path) -> Finding:
    """Encodes both worlds with pairs of agents and scores own and carried probes."""
    rows = [*moving(scale, out), *toys(scale, out)]
    return Finding(
        "How many labels a carried probe is worth",
        claims(rows),
        {"": plot(rows)},
        rows,
        [table(rows)],
        {"pairs in motion": runs.SEEDS[scale], "pairs on toys": len(_of_toys(rows, "carried"))},
    )


def moving(scale: str, out: pathlib.Path) -> Rows:
    """Readouts of position and heading of the teachers of `table9`, on two cameras."""
    world = runs.world(scenes.MOTION, scale, out)
    seen = [world.teachers(of) for of in ("other", "same")]
    dataset = world.scene.run(scale, (0,)).data.load(out / "cache")
    assert dataset.states is not None
    split, rows = splits(dataset)[0], []
    for pair in range(world.count):
        x, y = (
            agents.encode(pair, np.asarray(dataset.images[camera]))
            for agents, camera in zip(seen, (methods.OTHER, methods.OWN))
        )
        linear_map = alignment.fit(x[split.train], y[split.train])
        for column, name in enumerate(dataset.state_names):
            state = np.asarray(dataset.states)[:, column : column + 1]
            start = {"world": "motion", "pair": pair, "of": name}
            rows += _rows(start, _readouts(linear_map, x, y, state, split))
    return rows


def _readouts(
    linear_map: alignment.LinearMap, x: np.ndarray, y: np.ndarray, state: np.ndarray, split: Split
) -> Score:
    """R2 of a readout of one state: carried, as it is, from few labels and from all."""
    test, counts = split.test, [count for count in STATES if count <= len(split.train)]
    source = readouts.readout(x, state, split.train)

    def r2(predicted: np.ndarray) -> float:
        return float(readouts.r2_of_states(predicted, state[test])[0])

    def own(rows: np.ndarray) -> float:
        return r2(readouts.readout(y, state, rows).forward(y[test]))

    return {
        "carried": {k: r2(source.forward(linear_map.backward(y[test], k))) for k in KINDS},
        "as it is": r2(source.forward(y[test])),
        "counts": counts,
        "few": worth.few_labels(own, split.train, counts),
        "all": own(split.train),
    }


def toys(scale: str, out: pathlib.Path) -> Rows:
    """Logistic probes of the category, of pairs of I-JEPA agents on two cameras."""
    small = {"instances": 4, "splits": Splits(test_instances=2)} if scale == "smoke" else {}
    chosen = rivals.experiment("ijepa", STEPS[scale], 1 if scale == "smoke" else 3, **small)
    run = pairs.in_memory(chosen, out / "cache")
    z = evaluation.encode_states(run.parts.trainer.encode, run.train(), run.feed)
    half, split = len(z) // 2, run.split
    labels = np.asarray(run.dataset.labels)
    return [
        row
        for pair in range(half)
        for row in _rows({"world": "toys", "pair": pair, "of": "category"},
                         _probes(z[pair], z[half + pair], labels, split))
    ]  # fmt: skip


def _probes(x: np.ndarray, y: np.ndarray, labels: np.ndarray, split: Split) -> Score:
    """Accuracies of a probe of the category, as in `_readouts`."""
    train, test = split.train, split.test
    classes = np.unique(labels, return_inverse=True)[1]
    count = int(classes.max()) + 1
    linear_map = alignment.fit(x[train], y[train], ridge="auto")
    source = fit_logistic(x[train], classes[train], count)

    def own(rows: np.ndarray) -> float:
        return accuracy(fit_logistic(y[rows], classes[rows], count), y[test], classes[test])

    counts = [c for c in COUNTS if c <= np.bincount(classes[train]).min()]
    carried = {
        k: accuracy(transfer_probe(source, linear_map, kind=k), y[test], classes[test])
        for k in KINDS
    }
    return {
        "carried": carried,
        "as it is": accuracy(source, y[test], classes[test]),
        "counts": counts,
        "few": worth.few_labels(own, train, counts, classes=classes[train]),
        "all": own(train),
        "chance": float(np.bincount(classes[test]).max() / len(test)),
    }


def _rows(start: dict[str, Any], score: Score) -> Rows:
    """Returns the scores as rows, each with its label-equivalent where it is carried."""
    few, counts = score["few"], score["counts"]
    found: Rows = [
        {**start, "probe": "carried", "by": kind, "score": value,
         "labels": _finite(worth.label_equivalents(counts, few, value))}
        for kind, value in score["carried"].items()
    ]  # fmt: skip
    found += [
        {**start, "probe": "own", "labels": c, "score": float(s)} for c, s in zip(counts, few)
    ]
    others = {name: score[name] for name in ("as it is", "all", "chance") if name in score}
    return found + [{**start, "probe": name, "score": value} for name, value in others.items()]


def _finite(value: float) -> float | None:
    """None where no number of labels that was tried is enough."""
    return round(value, 2) if np.isfinite(value) else None


def _of_toys(rows: Rows, probe: str) -> Rows:
    by = {"by": "regression"} if probe == "carried" else {}
    return findings.select(rows, world="toys", probe=probe, **by)


def scores(rows: Rows, world: str, of: str, probe: str, **where: Any) -> list[float]:
    """Returns the scores of all pairs."""
    return findings.values(rows, "score", world=world, of=of, probe=probe, **where)


def equivalents(rows: Rows, world: str, of: str, by: str) -> list[float]:
    """Returns the label-equivalents of all pairs, inf where no number is enough."""
    found = findings.select(rows, world=world, of=of, probe="carried", by=by)
    return [np.inf if row["labels"] is None else row["labels"] for row in found]


def claims(rows: Rows) -> list[Claim]:
    """Judges the predictions of the head."""
    names = findings.distinct(findings.select(rows, world="motion"), "of")
    found = [claim for name in names for claim in _motion_claims(rows, name)]
    raw = max(np.mean(scores(rows, "motion", name, "as it is")) for name in names)
    text = f"the highest mean R2 is {raw:.3f}."
    found.append(Claim("motion/readout as it is", "R2 below 0", float(raw), bool(raw < 0), text))
    return found + _toy_claims(rows)


def _motion_claims(rows: Rows, name: str) -> list[Claim]:
    found = []
    own = np.mean(scores(rows, "motion", name, "all"))
    for by in ("inverse", "regression"):
        carried = scores(rows, "motion", name, "carried", by=by)
        least = float(np.median(equivalents(rows, "motion", name, by)))
        lost = float(own - np.mean(carried))
        found.append(
            Claim(f"motion/{name} by the {by}", "within 0.03 of all labels, worth at least 20",
                  lost, lost <= 0.03 and least >= 20,
                  f"R2 is {np.mean(carried):.3f}, {own:.3f} from all labels of its own; worth "
                  f"{_labels(least)} labels (median of pairs).", float(np.std(carried)))
        )  # fmt: skip
    return found


def _labels(count: float) -> str:
    return f"{count:.0f}" if np.isfinite(count) else "more than all tried"


def _toy_claims(rows: Rows) -> list[Claim]:
    """Categories: what the carried probe is worth, by which map, and the probe as it is."""
    by = {k: float(np.mean(scores(rows, "toys", "category", "carried", by=k))) for k in KINDS}
    labels = {k: float(np.median(equivalents(rows, "toys", "category", k))) for k in KINDS}
    own, raw, chance = (
        float(np.mean(scores(rows, "toys", "category", name)))
        for name in ("all", "as it is", "chance")
    )
    text = ", ".join(f"{k} {by[k]:.3f} ({_labels(labels[k])} labels a class)" for k in KINDS)
    text += f"; {own:.3f} from all labels, {raw:.3f} as it is, chance {chance:.3f}."
    best = labels["regression"]
    return [
        Claim("toys/category by the regression", "worth at least 5 labels a class",
              min(best, max(COUNTS)), best >= 5, text),
        Claim("toys/regression above the inverse", "in mean accuracy",
              by["regression"] - by["inverse"], by["regression"] > by["inverse"], text),
        Claim("toys/probe as it is", "within 0.1 of chance", raw, abs(raw - chance) <= 0.1, text),
    ]  # fmt: skip


def table(rows: Rows) -> Table:
    """Scores of carried and own probes, means over pairs, and what carrying is worth."""
    columns = [Column("raw", "as it is"), *(Column(k, title) for k, title in TITLES.items()),
               Column("all", "all labels"), Column("worth", "worth labels", digits=0)]  # fmt: skip
    lines = []
    for world, of in _subjects(rows):
        cells: dict[str, Any] = {
            k: pairs.cell(scores(rows, world, of, "carried", by=k)) for k in KINDS
        }
        cells |= {"raw": pairs.cell(scores(rows, world, of, "as it is")),
                  "all": pairs.cell(scores(rows, world, of, "all"))}  # fmt: skip
        value = float(np.median(equivalents(rows, world, of, "regression")))
        cells["worth"] = value if np.isfinite(value) else None
        lines.append(Row(f"{world}: {of}", cells))
    caption = "R2 of position and heading, accuracy of categories; labels a class on the toys."
    return Table(columns, lines, corner="probe", caption=caption)


def _subjects(rows: Rows) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["world"], row["of"]) for row in rows))


def plot(rows: Rows) -> Plot:
    """Scores over the number of own labels, with the carried probe as a level line."""
    panels = []
    for world, of in _subjects(rows):
        own = findings.select(rows, world=world, of=of, probe="own")
        curve = findings.curve(own, "labels", "score", "own labels", 0)
        ends: Sequence[float] = (min(curve.x), max(curve.x))
        known = {
            "carried, no label": scores(rows, world, of, "carried", by="regression"),
            "all labels": scores(rows, world, of, "all"),
        }
        levels = [
            figures.Line(label, ends, [float(np.mean(v))] * 2, style.agent_color(k), (0, (3, 2)))
            for k, (label, v) in enumerate(known.items(), 1)
        ]
        panels.append(Panel(f"{world}: {of}", [curve, *levels]))
    figure = line_panels(panels, x_label="labels of its own", y_label="R², or accuracy", log_x=True)
    return Plot(figure, "Scores of own probes over their labels, beside a carried probe",
                "Means over pairs of agents and draws of labels.")  # fmt: skip
