"""DMC Reacher under a goal-directed controller, and what breaks identifiability in it.

The paper scores encoders trained on trajectories by readouts fitted on trajectories, on images of
independent Gaussian angles: out of their distribution. Here readouts are fitted and scored on
either condition, beside the ceiling of the wrapped angles in the same cell. lambda is chosen on
agents with other seeds, and the best lambda on the reported agents stands beside it.

Predictions, written before the runs. Pairs of the Ornstein-Uhlenbeck process at the correlation of
a stride give more than trajectories in every cell. Scored within trajectories the encoders hold
more than the published 0.5 of the wrapped angles, since most of the contrast is the change of
distribution; R2 of the angles with their turns is low there too, by its ceiling. The wrist is lost
at stride 1 and found later, the shoulder is not. SIGReg of standardised differences falls by more
than ten times from stride 1 to its minimum, which is above the floor of Gaussian samples.

Command: python -m experiments.reproduce --only=reacher_trajectory --out=runs/reacher
Cost at --scale=cpu: 40 agents of 60 to 80 CPU seconds, 50 CPU minutes, after reacher_ou.
Expected at --scale=cpu: 6 of 11 claims agree. R2 on Gaussian angles is at most 0.13 (paper: 0.50 of
z to h), 0.31 to 0.54 of the process; within trajectories stride 64 holds 0.44, above the process,
and 0.88 of the wrist. SIGReg of differences is nowhere near its floor.
"""

import pathlib

import jax
import numpy as np

from experiments import findings
from experiments.figures import Panel, heat_map, line_panels
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.reacher import runs, scores
from experiments.reacher.ou import weight
from experiments.reacher.runs import Condition
from socialjepa_jax import sigreg
from socialjepa_jax.data.reacher.dataset import NAMES, ReacherData
from socialjepa_jax.dynamics.recorded import correlations
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Row, Table

# stride -> R2 of z to h, of the shoulder and of the wrist, in the paper
PAPER = {
    1: (-0.39, 0.71, -0.03), 2: (-0.47, 0.73, 0.01), 4: (-0.05, 0.51, 0.43),
    8: (0.50, 0.80, 0.78), 16: (0.44, 0.63, 0.87), 32: (0.45, 0.62, 0.81), 64: (0.44, 0.55, 0.77),
}  # fmt: skip
STRIDES: dict[str, tuple[int, ...]] = {"smoke": (8,), "cpu": (1, 4, 8, 16, 64)}
STRIDES |= dict.fromkeys(("gpu", "paper"), tuple(PAPER))
LAMBDAS: dict[str, tuple[float, ...]] = {"smoke": (0.01,), "cpu": (0.001, 0.01)}
LAMBDAS |= dict.fromkeys(("gpu", "paper"), (0.001, 0.005, 0.01, 0.05))
CHOOSING = {"smoke": (6_900,), "cpu": (6_900,), "gpu": (6_900, 6_901, 6_902)}
CHOOSING["paper"] = CHOOSING["gpu"]
MATCHED = {1: 0.99, 2: 0.99, 4: 0.99, 8: 0.99, 16: 0.99, 32: 0.95, 64: 0.9}  # stride -> rho of "ou"
SAMPLES, DRAWS, SLICES = 2_000, 20, 64  # of SIGReg
PUBLISHED = "trajectory>ou"  # readouts of the paper
OWN = "trajectory>trajectory"


def run(scale: str, out: pathlib.Path, trajectories: str | None = None) -> Finding:
    """Trains agents at every stride and lambda, and scores them beside those of the process."""
    rows: Rows = []
    for stride in STRIDES[scale]:
        for strength in LAMBDAS[scale]:
            condition = Condition(stride=stride, weight=strength, trajectories=trajectories or "")
            chosen = scores.rows(runs.train(condition, scale, out, CHOOSING[scale]))
            rows += [{**row, "role": "choosing"} for row in chosen]
            told = scores.rows(runs.train(condition, scale, out))
            rows += [{**row, "role": "reported"} for row in told]
    for rho in sorted({MATCHED[stride] for stride in STRIDES[scale]}):
        told = scores.rows(runs.train(Condition(rho=rho, weight=weight(rho)), scale, out))
        rows += [{**row, "role": "reported"} for row in told]
    rows += gaussianity(scale, out, trajectories or "")
    return Finding(
        "DMC Reacher from pixels: trajectories of a goal-directed controller",
        claims(rows),
        {"": plot(rows), "cells": cells_plot(rows), "sigreg": sigreg_plot(rows)},
        rows,
        [table(rows)],
        {"steps": runs.steps(scale), "trajectories": trajectories or "built in"},
    )


def gaussianity(scale: str, out: pathlib.Path, trajectories: str) -> Rows:
    """SIGReg of standardised differences of angles and their correlation, for every stride.

    The statistic is the mean over draws of 2,000 differences and 64 directions (the two joints: one
    direction); "floor" is that of Gaussian samples.
    """
    data = ReacherData(process="trajectory", trajectories=trajectories)
    episodes = data.episodes(out / "cache")
    rng, found = np.random.default_rng(0), []
    for stride in PAPER:
        if stride >= episodes.shape[1]:
            continue
        differences = (episodes[:, stride:] - episodes[:, :-stride]).reshape(-1, 2)
        rho = correlations(episodes, stride)
        for name, columns in (*zip(NAMES, ([0], [1])), ("both", [0, 1])):
            values = [
                _sigreg(rng.choice(differences, SAMPLES)[:, columns], k) for k in range(DRAWS)
            ]
            found.append(
                {"measure": "sigreg", "stride": stride, "of": name, "value": float(np.mean(values)),
                 "spread": float(np.std(values)), "correlation": float(rho[columns].mean())}
            )  # fmt: skip
    for name, width in (("shoulder", 1), ("both", 2)):
        values = [_sigreg(rng.normal(size=(SAMPLES, width)), k) for k in range(DRAWS)]
        found.append({"measure": "floor", "of": name, "value": float(np.mean(values))})
    return found


def _sigreg(x_ND: np.ndarray, draw: int) -> float:
    """SIGReg of standardised samples, over the directions of a draw."""
    z_ND = (x_ND - x_ND.mean(0)) / x_ND.std(0)
    count = SLICES if z_ND.shape[1] > 1 else 1
    directions = sigreg.sample_directions(jax.random.key(draw), z_ND.shape[1], count)
    return float(sigreg.sigreg(jax.numpy.asarray(z_ND, jax.numpy.float32), directions))


def chosen_lambda(rows: Rows, stride: int, measure: str) -> float:
    """Returns the lambda that is best for a measure on the choosing agents of a stride."""
    of = findings.select(rows, stride=stride, role="choosing")
    weights = findings.distinct(of, "lambda")
    return max(weights, key=lambda w: findings.mean(of, measure, **{"lambda": w}))


def over_stride(rows: Rows, column: str, measure: str = f"{OWN}/state") -> dict[int, float]:
    """Returns the mean of a column over reported agents with the chosen lambda, by stride."""
    strides = sorted(findings.distinct(findings.select(rows, role="reported"), "stride"), key=_last)
    return {
        stride: findings.mean(
            rows, column, stride=stride, role="reported",
            **{"lambda": chosen_lambda(rows, stride, measure)},
        )
        for stride in strides if stride
    }  # fmt: skip


def _last(stride: int | None) -> int:
    return stride or 0


def of_process(rows: Rows, column: str, rho: float) -> float:
    """Returns the mean of a column over reported agents of the Ornstein-Uhlenbeck process."""
    return findings.mean(rows, column, rho=rho, role="reported")


def claims(rows: Rows) -> list[Claim]:
    """The paper's statements and the predictions of the head."""
    return [
        *_contrast_claims(rows),
        *_joint_claims(rows),
        _choice_claim(rows),
        *_sigreg_claims(rows),
    ]


def _contrast_claims(rows: Rows) -> list[Claim]:
    """The published contrast, and the same within trajectories."""
    found = []
    back = over_stride(rows, f"{PUBLISHED}/z to h", f"{PUBLISHED}/state")
    found.append(
        Claim("published protocol/R2 of z to h never exceeds .5", "at most 0.5 at every stride",
              max(back.values()), max(back.values()) <= 0.5, f"R2 is {_list(back)}.")
    )  # fmt: skip
    for cell, name in ((PUBLISHED, "published protocol"), (OWN, "within trajectories")):
        ours = over_stride(rows, f"{cell}/state", f"{cell}/state")
        best = {s: of_process(rows, f"{cell}/state", MATCHED[s]) for s in ours}
        ahead = min(best[s] - ours[s] for s in ours)
        ceiling = findings.mean(rows, f"ceiling {cell}/state", role="reported")
        text = f"R2 is {_list(ours)} of trajectories and {_list(best)} of the process at the "
        text += f"nearest rho; the wrapped angles have {ceiling:.3f}."
        id = f"{name}/the process above trajectories"
        found.append(Claim(id, "at every matched rho", ahead, ahead > 0, text))
    wrapped = over_stride(rows, f"{OWN} wrapped/state", f"{OWN} wrapped/state")
    top = max(wrapped.values())
    found.append(
        Claim("within trajectories/R2 of wrapped angles", "above 0.5 at the best stride", top,
              top > 0.5, f"R2 of the wrapped angles is {_list(wrapped)}.")
    )  # fmt: skip
    return found


def _joint_claims(rows: Rows) -> list[Claim]:
    """Which joint is lost at which stride, by the paper's protocol."""
    shoulder, wrist = (
        over_stride(rows, f"{PUBLISHED}/{name}", f"{PUBLISHED}/state") for name in NAMES
    )
    first, last = min(wrist), max(wrist)
    state = over_stride(rows, f"{PUBLISHED}/state", f"{PUBLISHED}/state")
    best = max(state, key=lambda s: state[s])
    text = f"R2 of the shoulder is {_list(shoulder)}, of the wrist {_list(wrist)}."
    return [
        Claim("published protocol/wrist at the first stride", PAPER[first][2], wrist[first],
              abs(wrist[first] - PAPER[first][2]) <= 0.1, text),
        Claim("published protocol/shoulder falls at the last stride", "below that of its best",
              shoulder[last], shoulder[last] < max(shoulder.values()) - 0.05, text),
        Claim("published protocol/best stride", "4 to 16, neither the first nor the last",
              float(best), best not in (first, last), f"R2 of both is {_list(state)}."),
    ]  # fmt: skip


def _choice_claim(rows: Rows) -> Claim:
    """What it is worth to choose lambda on the reported agents."""
    measure = f"{PUBLISHED}/state"
    fair = over_stride(rows, measure, measure)
    best = {
        s: max(
            findings.mean(rows, measure, stride=s, role="reported", **{"lambda": w})
            for w in findings.distinct(findings.select(rows, stride=s, role="reported"), "lambda")
        )
        for s in fair
    }
    gain = max(best[s] - fair[s] for s in fair)
    return Claim(
        "lambda chosen on other seeds",
        "loses at most 0.05 against the best on test",
        gain,
        gain <= 0.05,
        f"R2 is {_list(fair)}, with the best {_list(best)}.",
    )


def _sigreg_claims(rows: Rows) -> list[Claim]:
    """SIGReg of the differences against its floor, over strides."""
    found = []
    floors = {row["of"]: row["value"] for row in findings.select(rows, measure="floor")}
    for name in (*NAMES, "both"):
        curve = {r["stride"]: r["value"] for r in findings.select(rows, measure="sigreg", of=name)}
        least = min(curve, key=lambda s: curve[s])
        floor = floors["both" if name == "both" else "shoulder"]
        fall = curve[min(curve)] / curve[least]
        found.append(
            Claim(f"SIGReg of differences/{name}", "falls ten times to a few times the floor at "
                  "8 or 16, then rises", fall,
                  fall >= 10 and curve[least] <= 4 * floor and least in (8, 16),
                  f"SIGReg is {_list(curve, 1)}, of Gaussian samples {floor:.1f}.")
        )  # fmt: skip
    return found


def _list(values: dict[int, float], digits: int = 3) -> str:
    return ", ".join(f"{value:.{digits}f} ({key:g})" for key, value in values.items())


def table(rows: Rows) -> Table:
    """The paper's table: what each stride gives, in both protocols."""
    names = {
        "paper: z to h": None, "z to h": f"{PUBLISHED}/z to h", "shoulder": f"{PUBLISHED}/shoulder",
        "wrist": f"{PUBLISHED}/wrist", "within: shoulder": f"{OWN}/shoulder",
        "within: wrist": f"{OWN}/wrist", "within: wrapped": f"{OWN} wrapped/state",
    }  # fmt: skip
    columns = [Column(name, name, digits=3) for name in names]
    measured = {
        name: over_stride(rows, column, f"{column.partition('/')[0]}/state")
        for name, column in names.items() if column
    }  # fmt: skip
    lines = [
        Row(str(s), {"paper: z to h": PAPER[s][0], **{n: v[s] for n, v in measured.items()}})
        for s in next(iter(measured.values()))
    ]
    return Table(columns, lines, corner="stride", caption="R2, means over agents.")


def plot(rows: Rows) -> Plot:
    """R2 of both joints over the stride, in both protocols and the paper."""
    panels = []
    for title, cell in (("scored on Gaussian angles", PUBLISHED), ("within trajectories", OWN)):
        curves = []
        for k, name in enumerate(NAMES):
            values = over_stride(rows, f"{cell}/{name}", f"{cell}/state")
            curves.append(
                figures.Line(name, list(values), list(values.values()), style.agent_color(k), "-",
                             "o")
            )  # fmt: skip
            if cell == PUBLISHED:
                curves.append(
                    figures.Line(f"{name}, paper", list(PAPER), [p[1 + k] for p in PAPER.values()],
                                 style.agent_color(k), (0, (3, 2)), "o")
                )  # fmt: skip
        panels.append(Panel(title, curves))
    figure = line_panels(panels, x_label="stride", y_label="R² of the angle", log_x=True)
    caption = "Readouts fitted on trajectories; mean of three agents, lambda chosen on others."
    return Plot(figure, "R2 of shoulder and wrist over the stride, in two protocols", caption)


def cells_plot(rows: Rows) -> Plot:
    """The four cells, of agents of either condition, over the ceiling of the cell."""
    stride, short = 8, {"ou": "process", "trajectory": "episodes"}
    names = [f"{short[a]}\n\N{RIGHTWARDS ARROW} {short[b]}" for a, b in scores.CELLS]
    cells = [f"{a}>{b}" for a, b in scores.CELLS]
    lines = [
        [of_process(rows, f"{c}/state", MATCHED[stride]) for c in cells],
        [over_stride(rows, f"{c}/state", f"{c}/state")[stride] for c in cells],
        [findings.mean(rows, f"ceiling {c}/state", role="reported") for c in cells],
    ]
    figure = heat_map(
        np.array(lines),
        [f"process, rho {MATCHED[stride]:g}", f"trajectories, stride {stride}", "wrapped angles"],
        names,
        title="R² of the joints in four cells",
        row_name="trained on",
        column_name="readouts fitted \N{RIGHTWARDS ARROW} scored on",
    )  # fmt: skip
    return Plot(figure, "R2 of agents of both conditions in four cells, with the ceiling",
                "Mean of both joints and three agents.")  # fmt: skip


def sigreg_plot(rows: Rows) -> Plot:
    """SIGReg of standardised differences over the stride."""
    names = (*NAMES, "both")
    lines = [
        findings.curve(findings.select(rows, measure="sigreg"), "stride", "value", name, k, of=name)
        for k, name in enumerate(names)
    ]
    floor = findings.mean(rows, "value", measure="floor", of="both")
    figure = figures.lines(
        lines, title="SIGReg of the differences over the stride", x_label="stride",
        y_label="SIGReg, standardised", log_x=True, log_y=True,
        levels=[figures.Level("Gaussian samples", floor, floor, floor, style.agent_color(3))],
    )  # fmt: skip
    return Plot(figure, "SIGReg of differences of angles over the stride, with its floor",
                "Differences of angles with their turns; 2,000 in a draw.")  # fmt: skip
