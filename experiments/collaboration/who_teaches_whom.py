"""Which teacher helps which student: weak or strong, small or large, of another loss or camera.

One thing at a time differs from `table9`, whose world, seeds, costs and score are kept: five
students on the second camera of the flicker world of `motion_lejepa`, R2 of the state, arrived at
0.95 of the final score of such students alone. Each teacher is joined twice, by W as the paper has
it and by W = I, with their weights of `table9`; nothing is tuned here. A weak teacher has had a
fifth of the steps. A weak student has 500 pairs of images to learn from instead of 12,000, and
shares only these with its teacher. Larger models have twice the channels of every layer. Teachers
of another loss have InfoNCE's or VICReg's on the same pairs; nearer teachers stand 80 and 20
degrees from the student instead of 160.

Predictions, written before the runs. Students end above a weak teacher, by at least .05 of R2; it
saves less than a whole one, by at least .05 of the cost, but something; W = I holds students back,
by more than .02 at the end. Few images leave a student alone at least .02 below one with all, and a
teacher lifts it by at least .02 even though it shares no other image. The sizes do not matter: a
larger teacher and a larger student cost within .1 of `table9`, by W. Nor do the camera, at 80 and
at 20 degrees, and InfoNCE. VICReg's teacher has lost the heading: W saves less, by at least .1, and
W = I holds students back by more than .02. With any teacher that is whole and of LeJEPA's or
InfoNCE's loss W = I costs less than W.

Command: python -m experiments.reproduce --only=who_teaches_whom --out=runs/table9
Cost at --scale=cpu: 18 runs of 2 CPU minutes and 6 sets of teachers of one after table9, whose
agents are in OUT, 55 CPU minutes beside other work; what is finished is kept.
Expected at --scale=cpu: 13 of 18 claims agree. With 500 pairs of images students end at 0.87 beside
a teacher, 0.55 alone; a teacher that holds 0.53 holds them at 0.67.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments import findings
from experiments.collaboration import methods, runs, scenes, table9
from experiments.collaboration.runs import World
from experiments.collaboration.table9 import ALONE, W
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.motion import pairs
from socialjepa_jax.collaboration import costs
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Interval, Row, Table

IDENTITY = "W = I"
LINKS = (W, IDENTITY)
AS_BEFORE = "as in table9"
FOLDER = "who_teaches_whom"
NEAR, CLEAR = 0.1, 0.05  # of a ratio of costs
LIFTED, HELD = 0.02, 0.02  # of R2
LARGER = {"objective__encoder__widths": (64, 128), "objective__encoder__hidden": 256}
FEW = {"smoke": 32}
FEW |= dict.fromkeys(("cpu", "gpu", "paper"), 500)


@dataclass(frozen=True)
class Setting:
    """What differs from `table9`.

    Attributes:
        teacher: changes of the teachers' settings, see `pairs.experiment`.
        student: of the students'.
        both: of the world that both live in; a student alone must not notice them.
        share: of the steps that the teacher has had.
    """

    teacher: Mapping[str, object] = field(default_factory=dict)
    student: Mapping[str, object] = field(default_factory=dict)
    both: Mapping[str, object] = field(default_factory=dict)
    share: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """Methods that are run: other students have a run alone of their own."""
        return (ALONE, *LINKS) if self.student else LINKS


WEAK, FEW_IMAGES, TEACHER, STUDENT, INFONCE, VICREG = (
    "weak teacher", "few images", "larger teacher", "larger student", "teacher of InfoNCE",
    "teacher of VICReg",
)  # fmt: skip
ANGLES = {"80 degrees apart": (0.0, 80.0), "20 degrees apart": (60.0, 80.0)}
WHOLE = (AS_BEFORE, TEACHER, STUDENT, INFONCE, *ANGLES)  # teachers with all of the state


def settings(scale: str) -> dict[str, Setting]:
    """Returns what is run beside `table9`, by name."""
    return {
        WEAK: Setting(share=0.2),
        FEW_IMAGES: Setting(student={"data__pool": FEW[scale]}),
        TEACHER: Setting(teacher=LARGER),
        STUDENT: Setting(student=LARGER),
        INFONCE: Setting(teacher={"objective__regularizer": "infonce"}),
        VICREG: Setting(teacher={"objective__regularizer": "vicreg"}),
        **{name: Setting(both={"data__azimuths": pair}) for name, pair in ANGLES.items()},
    }


def run(scale: str, out: pathlib.Path) -> Finding:
    """Measures every setting, or reads what an earlier call left in `out`."""
    rows = before(scale, out)
    for name, setting in settings(scale).items():
        rows += kept(name, setting, scale, out)
    return Finding(
        "Who teaches whom",
        claims(rows),
        {"": plot(rows)},
        rows,
        [table(rows)],
        {"steps": scenes.MOTION.steps[scale], "seeds": runs.SEEDS[scale]},
    )


def before(scale: str, out: pathlib.Path) -> Rows:
    """Returns the rows of `table9`, with the scores of its teachers."""
    scene = scenes.MOTION
    found = [row for name in (ALONE, *LINKS) for row in runs.rows(name, scene, scale, out)]
    path = out / FOLDER / f"{scale}_teachers.json"
    found += findings.kept(path, lambda: [told(runs.world(scene, scale, out))])
    return [{"setting": AS_BEFORE, **row} for row in found if row["part"] != "tuning"]


def kept(name: str, setting: Setting, scale: str, out: pathlib.Path) -> Rows:
    """Returns the rows of a setting, measured if `out` does not hold them."""
    path = out / FOLDER / f"{scale}_{name.replace(' ', '_')}.json"
    rows = findings.kept(path, lambda: measure(name, setting, scale, out))
    return [{"setting": name, **row} for row in rows]


def measure(name: str, setting: Setting, scale: str, out: pathlib.Path) -> Rows:
    """Trains the teachers and students of a setting; returns rows as `runs` does."""
    world, rows = world_of(name, setting, scale, out), []
    for of in setting.names:
        (cost,) = findings.select(runs.rows(of, world.scene, scale, out), part="cost")
        method = methods.methods(world.scene, scale)[of]
        found = runs.measured(method, cost["value"], world)
        rows += [{"method": of, **row} for row in found]
    return [*rows, told(world)]


def world_of(name: str, setting: Setting, scale: str, out: pathlib.Path) -> World:
    """Returns the world of a setting's students, with that of its teachers."""
    usual = teachers = runs.world(scenes.MOTION, scale, out)
    if setting.teacher or setting.both or setting.share < 1.0:
        steps = round(usual.scene.steps[scale] * setting.share)
        teachers = dataclasses.replace(
            usual,
            scene=dataclasses.replace(usual.scene, steps={scale: steps}),
            changes={**setting.both, **setting.teacher},
            folder=out / FOLDER / name.replace(" ", "_"),
        )
    changes = {**setting.both, **setting.student}
    return dataclasses.replace(usual, changes=changes, taught_in=teachers)


def told(world: World) -> dict[str, Any]:
    """Returns a row with the score of each teacher of a world on its own camera."""
    alone = methods.methods(world.scene, world.scale)[ALONE]
    seeds = runs.students(world.scale)
    chosen = methods.experiment(alone, world.scene, world.scale, seeds, **world.changes)
    dataset = runs.in_memory(chosen, None).dataset
    teachers, score = world.teachers("other"), world.scene.score(dataset)
    images = dataset.images[methods.OTHER]
    scores = [score(teachers.encode(k, images)) for k in range(teachers.num_agents)]
    return {"part": "teachers", "scores": [round(each, 5) for each in scores]}


def seen(rows: Rows, name: str) -> Rows:
    """Returns the rows of a setting with those of its students alone, as `table9` reads them."""
    own = findings.select(rows, setting=name)
    if findings.select(own, method=ALONE):
        return own
    return findings.select(rows, setting=AS_BEFORE, method=ALONE) + own


def ratio(rows: Rows, name: str, link: str = W) -> costs.Spent:
    """Returns the cost of arriving over that of such students alone."""
    return table9.ratio(seen(rows, name), link)


def final(rows: Rows, name: str, method: str) -> float:
    """Returns the mean score of students at the end."""
    return float(table9.curves(seen(rows, name), method).scores[:, -1].mean())


def teachers_of(rows: Rows, name: str) -> float:
    """Returns the mean score of the teachers."""
    (row,) = findings.select(rows, setting=name, part="teachers")
    return float(np.mean(row["scores"]))


def claims(rows: Rows) -> list[Claim]:
    """Judges the predictions of the head."""
    usual = ratio(rows, AS_BEFORE).mean
    return [
        *_weak_claims(rows, usual),
        *_few_claims(rows),
        *(_near_claim(rows, name, usual) for name in WHOLE[1:]),
        _less_claim(rows, VICREG, usual, NEAR),
        _held_claim(rows, VICREG),
        *(_identity_claim(rows, name) for name in WHOLE),
    ]


def _weak_claims(rows: Rows, usual: float) -> list[Claim]:
    weak, beyond = teachers_of(rows, WEAK), final(rows, WEAK, W) - teachers_of(rows, WEAK)
    text = f"students end at {final(rows, WEAK, W):.3f}, their teachers at {weak:.3f}."
    return [
        Claim(f"{WEAK}/beyond", "students end .05 above", beyond, beyond >= CLEAR, text),
        _less_claim(rows, WEAK, usual, CLEAR, most=1.0),
        _held_claim(rows, WEAK),
    ]


def _few_claims(rows: Rows) -> list[Claim]:
    alone, usual = final(rows, FEW_IMAGES, ALONE), final(rows, AS_BEFORE, ALONE)
    lifted = final(rows, FEW_IMAGES, W) - alone
    return [
        Claim(f"{FEW_IMAGES}/alone", "at least .02 lower", alone - usual, usual - alone >= LIFTED,
              f"{alone:.3f} alone, {usual:.3f} with all images."),
        Claim(f"{FEW_IMAGES}/lifted", "at least .02 higher", lifted, lifted >= LIFTED,
              f"{lifted + alone:.3f} beside a teacher, {alone:.3f} alone."),
    ]  # fmt: skip


def _text(rows: Rows, name: str) -> str:
    """States what both links cost and where students end."""
    parts = []
    for link in LINKS:
        spent = ratio(rows, name, link)
        parts.append(f"{link} {spent.mean:.2f} of the cost alone ({spent.low:.2f} to "
                     f"{spent.high:.2f}), final score {final(rows, name, link):.3f}")  # fmt: skip
    ends = f"alone {final(rows, name, ALONE):.3f}, teachers {teachers_of(rows, name):.3f}"
    return f"{'; '.join(parts)}; {ends}."


def _near_claim(rows: Rows, name: str, usual: float) -> Claim:
    apart = ratio(rows, name).mean - usual
    return Claim(f"{name}/W", f"cost within {NEAR} of {AS_BEFORE}", apart, abs(apart) <= NEAR,
                 _text(rows, name))  # fmt: skip


def _less_claim(rows: Rows, name: str, usual: float, by: float, most: float = np.inf) -> Claim:
    spent = ratio(rows, name).mean
    statement = f"costs at least {by} more" + (", less than alone" if most < np.inf else "")
    return Claim(f"{name}/W", statement, spent - usual, bool(usual + by <= spent < most),
                 _text(rows, name))  # fmt: skip


def _held_claim(rows: Rows, name: str) -> Claim:
    held = final(rows, name, ALONE) - final(rows, name, IDENTITY)
    return Claim(f"{name}/{IDENTITY}", f"ends more than {HELD} below alone", held, held > HELD,
                 _text(rows, name))  # fmt: skip


def _identity_claim(rows: Rows, name: str) -> Claim:
    apart = ratio(rows, name, IDENTITY).mean - ratio(rows, name).mean
    return Claim(f"{name}/{IDENTITY}", "costs less than W", apart, apart < 0.0, _text(rows, name))


def table(rows: Rows) -> Table:
    """Scores and costs of every setting."""
    columns = [
        Column("teachers", "teachers' R²", digits=3),
        Column("alone", "R² at the end, alone", digits=3),
        *(Column(f"final {link}", f"{link}", digits=3) for link in LINKS),
        *(Column(f"cost {link}", f"cost by {link}", digits=2) for link in LINKS),
    ]
    lines = []
    for name in names(rows):
        cells: dict[str, float | Interval | None] = {
            "teachers": teachers_of(rows, name),
            "alone": final(rows, name, ALONE),
        }
        for link in LINKS:
            spent = ratio(rows, name, link)
            scores = table9.curves(seen(rows, name), link).scores[:, -1]
            cells[f"final {link}"] = pairs.cell(scores.tolist())
            cells[f"cost {link}"] = Interval(spent.mean, spent.low, spent.high)
        lines.append(Row(name, cells, ranked=False))
    caption = f"Costs over those of such students alone; arrived: {table9.SHARE:g} of their score."
    return Table(columns, lines, corner="setting", caption=caption)


def names(rows: Rows) -> list[str]:
    """Returns the settings in order."""
    return findings.distinct(rows, "setting")


def plot(rows: Rows) -> Plot:
    """The cost of arriving in every setting, by both links."""
    series = [
        figures.BarSeries(
            link, [ratio(rows, name, link).mean for name in names(rows)], style.agent_color(k)
        )
        for k, link in enumerate(LINKS)
    ]
    groups = [name.replace(" ", "\n", 1) for name in names(rows)]
    figure = figures.bars(
        groups, series, title="Who teaches whom", y_label="cost of arriving, alone = 1", width=9.0
    )
    return Plot(figure, "Cost of arriving beside different teachers, by W and by W = I",
                "Restricted means over five students.")  # fmt: skip
