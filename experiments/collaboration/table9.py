"""What a teacher on another camera saves a student, against every baseline that could explain it.

Five students of each method learn on the second camera of the flicker world of `motion_lejepa`;
teachers have learned on the first one. The score is R2 of the state on held-out states, measured
20 times in a run; a student has arrived when it reaches 0.95 of the mean final score of students
alone, by an isotonic fit of its curve. Costs are FLOPs of updates, counted in their programs, with
the teacher's forward passes and the solves of W; runs that never arrive count with the cost of all
500 steps. Methods are tuned alike: three values of one knob in another world (rho = 0.85, other
states), by the mean score of a run. Intervals resample seeds, of both methods of a ratio at once.

Predictions, written before the runs. Beside a teacher students arrive at no more than half of the
cost of students alone (the paper: 0.28). W is not what helps: W = I, a random orthogonal W and a
learned head do as well within 0.1, since a student that starts from nothing may learn any frame.
Shuffled pairs and an untrained teacher save nothing. A teacher on the same camera saves as much
within 0.1. Pairs of cameras without a teacher save less than W by at least 0.1. The teacher's
weights at first save something, less than W; without training they give R2 below 0.5. Charged with
its teacher's training a single student costs more than alone. A head alone, without the student's
own loss, arrives, and for less than W. Similarities with a queue save less than W. Two models that
teach each other cost at least 0.9 of two models alone, by either method (the paper: 1.12 and 1.05
of one). Half of the steps with the whole schedule is the cheapest baseline: students alone arrive
in it at a cost below 1, and students beside a teacher below that.

Command: python -m experiments.reproduce --only=table9 --out=runs/table9
Cost at --scale=cpu: 18 methods of 3 CPU minutes, 55 CPU minutes; finished methods are kept.
Expected at --scale=cpu: 9 of 20 claims agree. Costs are 0.50 by W, 0.26 with W = I, 0.17 of a head
without a loss of the student's own, 0.16 from the teacher's weights, 1.53 with wrong pairs, 2.74 of
mutual teaching (two models).
"""

import pathlib
from dataclasses import dataclass

import numpy as np

from experiments import findings
from experiments.collaboration import methods, runs, scenes
from experiments.collaboration.scenes import Scene
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.motion import pairs
from socialjepa_jax.collaboration import costs
from socialjepa_jax.collaboration.costs import Spent
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Interval, Row, Table

SHARE = 0.95  # of the final score of students alone
SHARES = (0.90, SHARE, 0.99)
ALONE, W, KEPT = "alone", "W", "W, latents kept"
WARM = "teacher's weights at first"
NEAR = 0.1  # of a ratio of costs
FROZEN = 0.5  # predicted of the teacher's encoder on the student's camera, R2 of the state
PAPER = {W: 0.28, "mutual, both": 1.12, "mutual, alternating": 1.05}
SHOWN = (ALONE, W, "W = I", "learned head, no own loss", WARM, "W of shuffled pairs",
         "pairs without a teacher")  # fmt: skip


def run(scale: str, out: pathlib.Path) -> Finding:
    """Tunes and measures every method, or reads what an earlier call left in `out`."""
    title = "A second agent beside a first one: what a teacher saves"
    return found(scenes.MOTION, title, scale, out, FROZEN)


def found(
    scene: Scene, title: str, scale: str, out: pathlib.Path, frozen: float | None = None
) -> Finding:
    """Measures every method in a scene; `frozen` as in `claims`."""
    names = methods.methods(scene, scale)
    rows = [row for name in names for row in runs.rows(name, scene, scale, out)]
    return Finding(
        title,
        claims(rows, frozen),
        {"": plot(rows, scene.score_name)},
        rows,
        [table(rows, scene.score_name)],
        {"steps": scene.steps[scale], "seeds": runs.SEEDS[scale]},
    )


@dataclass(frozen=True)
class Curves:
    """All students of a method: their scores over their cost.

    Attributes:
        costs: f64[T], cumulative FLOPs of a student at each evaluation.
        scores: f64[R, T].
        limit: cost of as many steps as students alone take, also where the schedule is shorter:
            what a run that never arrives counts with.
    """

    costs: np.ndarray
    scores: np.ndarray
    limit: float

    def crossings(self, threshold: float) -> np.ndarray:
        """Returns the cost of arriving of each student: f64[R], inf where it does not."""
        return np.array([costs.crossing(self.costs, s, threshold) for s in self.scores])


def curves(rows: Rows, name: str) -> Curves:
    """Returns the curves of a method.

    Kept latents are computed once for every state. Where training draws no crops, their students
    are those of W, at another cost.
    """
    kept, name = name == KEPT, measured(rows, name)
    of = findings.select(rows, method=name, part="run")
    (cost,) = findings.select(rows, method=name, part="cost")
    a_step = cost["own"] + cost["coupling"] + cost["solves"] + (0.0 if kept else cost["teacher"])
    first = cost["pool"] * cost["image"] if kept else 0.0
    most = findings.select(rows, method=ALONE, part="run")[0]["steps"][-1]
    spent = first + a_step * np.array(of[0]["steps"])
    return Curves(spent, np.array([row["scores"] for row in of]), first + a_step * most)


def measured(rows: Rows, name: str) -> str:
    """Returns the method whose runs those of a method are."""
    return name if findings.select(rows, method=name) else W


def threshold(rows: Rows, share: float = SHARE) -> float:
    """Returns the score at which a student has arrived."""
    return costs.threshold_of(curves(rows, ALONE).scores[:, -1], share)


def ratio(rows: Rows, name: str, share: float = SHARE, charged: bool = False) -> Spent:
    """Returns the cost of arriving over that of students alone.

    Args:
        rows: of the experiment.
        name: of the method.
        share: of the final score of students alone.
        charged: add the teacher's training to every student.
    """
    return over_alone(rows, curves(rows, name), share, charged)


def over_alone(rows: Rows, ours: Curves, share: float = SHARE, charged: bool = False) -> Spent:
    """Returns the cost of arriving by some curves over that of students alone; see `ratio`."""
    level, alone = threshold(rows, share), curves(rows, ALONE)
    extra = alone.limit if charged else 0.0
    limits = (ours.limit + extra, alone.limit)
    return costs.relative(ours.crossings(level) + extra, alone.crossings(level), limits)


def trained_names(rows: Rows) -> list[str]:
    """Names of the methods that train, kept latents among them."""
    names = [n for n in findings.distinct(rows, "method") if len(curves(rows, n).costs) > 1]
    return list(dict.fromkeys([*names, KEPT]))


def claims(rows: Rows, frozen: float | None = FROZEN) -> list[Claim]:
    """Judges the paper's numbers and the predictions of the head.

    Args:
        rows: of the experiment.
        frozen: highest score that is predicted of the teacher's encoder as it is; None: less than
            what has arrived.
    """
    of_w = ratio(rows, W)
    return [
        _ratio_claim(rows, W, f"{PAPER[W]} in the paper", abs(of_w.mean - PAPER[W]) <= 0.05),
        _ratio_claim(rows, W, "at most 0.5", of_w.high <= 0.5, "W/half of the cost"),
        *(_near_claim(rows, name) for name in ("W = I", "W random orthogonal", "learned head",
                                               "W, teacher on the same camera")),
        *(_no_gain_claim(rows, name) for name in ("W of shuffled pairs", "W, teacher untrained")),
        *_less_than_w_claims(rows),
        _frozen_claim(rows, frozen or threshold(rows)),
        _charged_claim(rows),
        *(cheaper_claim(rows, name) for name in ("learned head, no own loss", KEPT)),
        *_mutual_claims(rows),
        *_short_claims(rows),
    ]  # fmt: skip


def _ratio_claim(rows: Rows, name: str, paper: str, agrees: bool, id: str = "") -> Claim:
    spent = ratio(rows, name)
    return Claim(id or f"{name}/cost", paper, spent.mean, bool(agrees), told(rows, name))


def told(rows: Rows, *names: str) -> str:
    """States cost, interval, share of arrivals and final score of methods."""
    parts = []
    for name in names:
        spent, final = ratio(rows, name), curves(rows, name).scores[:, -1].mean()
        parts.append(
            f"{name}: {spent.mean:.2f} of the cost alone ({spent.low:.2f} to {spent.high:.2f}), "
            f"{spent.reached:.0%} arrive, final score {final:.3f}"
        )
    return "; ".join(parts) + "."


def _near_claim(rows: Rows, name: str) -> Claim:
    apart = ratio(rows, name).mean - ratio(rows, W).mean
    agrees = abs(apart) <= NEAR
    return Claim(f"{name}/as good as W", f"cost within {NEAR} of W's", apart, agrees,
                 told(rows, name, W))  # fmt: skip


def _no_gain_claim(rows: Rows, name: str) -> Claim:
    return _ratio_claim(rows, name, "at least 1: nothing is saved", ratio(rows, name).high >= 1.0)


def _less_than_w_claims(rows: Rows) -> list[Claim]:
    """What saves less than a teacher: pairs alone, weights at first, similarities."""
    of_w = ratio(rows, W).mean
    found = []
    for name, apart, most in (
        ("pairs without a teacher", NEAR, np.inf),
        (WARM, 0.0, 1.0),
        ("similarities", 0.0, 1.0),
    ):
        mean = ratio(rows, name).mean
        statement = f"costs more than W{f' by {apart}' if apart else ''}"
        statement += ", less than alone" if most == 1.0 else ""
        found.append(
            Claim(f"{name}/saves less than W", statement, mean, bool(of_w + apart < mean < most),
                  told(rows, name, W))
        )  # fmt: skip
    return found


def _frozen_claim(rows: Rows, most: float) -> Claim:
    name = "teacher's weights, no training"
    score = float(curves(rows, name).scores[:, -1].mean())
    text = f"the score is {score:.3f}; {threshold(rows):.3f} has arrived."
    return Claim(f"{name}/score", f"below {most:.3g}", score, score < most, text)


def _charged_claim(rows: Rows) -> Claim:
    spent, free = ratio(rows, W, charged=True), ratio(rows, W)
    saved = 1.0 - free.mean
    students = f"{int(np.ceil(1.0 / saved))} students pay for it" if saved > 0 else "never paid for"
    return Claim("W/teacher charged", "above 1 for one student", spent.mean, spent.low > 1.0,
                 f"with the teacher's training a student costs {spent.mean:.2f} "
                 f"({spent.low:.2f} to {spent.high:.2f}); {students}.")  # fmt: skip


def cheaper_claim(rows: Rows, name: str, than: str = W) -> Claim:
    """Judges that a method arrives, and for less than another."""
    spent = ratio(rows, name)
    agrees = spent.mean < ratio(rows, than).mean and spent.reached == 1.0
    return _ratio_claim(rows, name, f"arrives, for less than {than}", agrees)


def _mutual_claims(rows: Rows) -> list[Claim]:
    """Two models that teach each other, over two models alone."""
    found = []
    for name in ("mutual, both", "mutual, alternating", "mutual, W = I"):
        spent = ratio(rows, name)
        paper = f"; the paper has {PAPER[name]} of one" if name in PAPER else ""
        found.append(
            Claim(f"{name}/cost of two models", f"at least 0.9 of two alone{paper}",
                  spent.mean / 2, spent.mean / 2 >= 0.9,
                  f"{spent.mean / 2:.2f} of two models alone ({spent.low / 2:.2f} to "
                  f"{spent.high / 2:.2f}), {spent.reached:.0%} of the first members arrive.")
        )  # fmt: skip
    return found


def _short_claims(rows: Rows) -> list[Claim]:
    """What shorter schedules save, with and without a teacher."""
    alone, taught = (ratio(rows, f"{name}, half the steps") for name in (ALONE, W))
    text = told(rows, f"{ALONE}, half the steps", f"{W}, half the steps")
    return [
        Claim("half the steps/alone", "arrives below 1", alone.mean, alone.mean < 1.0, text),
        Claim("half the steps/W", "below students alone", taught.mean,
              taught.mean < alone.mean, text),
    ]  # fmt: skip


def table(rows: Rows, score: str = scenes.MOTION.score_name) -> Table:
    """Every method: final score, cost of arriving at three thresholds, the price of the teacher."""
    columns = [
        Column("final", f"{score}, at the end", digits=3),
        *(Column(f"{share:g}", f"cost to {share:g}", digits=2, best="min") for share in SHARES),
        Column("charged", "with the teacher", digits=2, best="min"),
        Column("reached", "arrive", digits=2),
        Column("kilobytes", "kB exchanged", digits=0),
        Column("value", "knob", digits=2),
    ]
    lines = [Row(name, _cells(rows, name)) for name in trained_names(rows)]
    caption = f"Costs over those of students alone; arrived: {SHARE:g} of their score."
    return Table(columns, lines, corner="method", caption=caption)


def _cells(rows: Rows, name: str) -> dict[str, float | Interval | None]:
    of = measured(rows, name)
    (cost,) = findings.select(rows, method=of, part="cost")
    ours = curves(rows, name)
    spent = {share: ratio(rows, name, share) for share in SHARES}
    taught = bool(cost["teacher"]) or name == WARM
    arrived = np.minimum(ours.crossings(threshold(rows)), ours.costs[-1]).mean() / ours.costs[-1]
    last = findings.select(rows, method=of, part="run")[0]["steps"][-1]
    return {
        "final": pairs.cell(ours.scores[:, -1].tolist()),
        **{f"{s:g}": Interval(v.mean, v.low, v.high) for s, v in spent.items()},
        "charged": ratio(rows, name, charged=True).mean if taught else None,
        "reached": spent[SHARE].reached,
        "kilobytes": arrived * last * cost["exchanged"] / 1e3,
        "value": cost["value"],
    }


def plot(rows: Rows, score: str = scenes.MOTION.score_name) -> Plot:
    """The score over the cost, mean over students."""
    unit = curves(rows, ALONE).costs[-1]
    level = threshold(rows)
    lines = [
        figures.Line(name, c.costs / unit, c.scores.mean(0), style.agent_color(k), "-", "o")
        for k, (name, c) in enumerate((n, curves(rows, n)) for n in SHOWN)
    ]
    figure = figures.lines(
        lines, title=f"{score} over the cost of training", x_label="FLOPs, run alone = 1",
        y_label=score, levels=[_level(level)],
    )  # fmt: skip
    return Plot(figure, "Score of students over their cost, by method",
                "Mean of the students; the teacher's own training is not counted.")  # fmt: skip


def _level(value: float) -> figures.Level:
    return figures.Level(f"{SHARE:g} of alone", value, value, value, style.agent_color(7))
