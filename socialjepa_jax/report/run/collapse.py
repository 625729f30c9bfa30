"""Collapse of a run's latents, in numbers and as a verdict."""

import math
from dataclasses import asdict, dataclass

from socialjepa_jax.evaluation.metrics import has_collapsed
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.run import data
from socialjepa_jax.report.run.data import RunData
from socialjepa_jax.report.tables import Column, Row, Table

COLLAPSED, LOW, HEALTHY = "collapsed", "low rank", "healthy"
_COLUMNS = (
    Column("rankme", "RankMe", 1),
    Column("dim", "of D", 0),
    Column("feature_std", "feature std", 3),
    Column("first_std", "at the start", 3),
    Column("latent_norm", "latent norm", 2),
    Column("verdict", "verdict"),
)


@dataclass(frozen=True)
class Health:
    """State of an agent's latents at the last evaluation; NaN for missing numbers.

    Attributes:
        rankme: Effective rank of the latents.
        dim: Latent dimensions D.
        feature_std: Mean standard deviation of the features.
        first_std: The same at the first evaluation.
        latent_norm: Mean Euclidean norm of the latents.
    """

    rankme: float
    dim: float
    feature_std: float
    first_std: float
    latent_norm: float

    @property
    def verdict(self) -> str:
        """The rule of training, and a milder one.

        "collapsed": RankMe below 2, or a spread below 0.1 percent of the norm; "low rank": RankMe
        below a tenth of D; "healthy" otherwise; "n/a" without a finite RankMe.
        """
        if not math.isfinite(self.rankme):
            return "n/a"
        if has_collapsed(self.rankme, self.feature_std, self.latent_norm):
            return COLLAPSED
        return LOW if self.rankme < 0.1 * self.dim else HEALTHY


def health(run: RunData, agent: int) -> Health:
    """Reads an agent's state from the evaluations."""
    curves = {
        key: data.curve(run.evals, f"agent_{agent}/{key}")[1]
        for key in ("rankme", "feature_std", "latent_norm")
    }
    last = {key: float(values[-1]) if len(values) else math.nan for key, values in curves.items()}
    first = float(curves["feature_std"][0]) if len(curves["feature_std"]) else math.nan
    dim = float(run.latents[agent].z.shape[1]) if agent in run.latents else math.nan
    return Health(dim=dim, first_std=first, **last)


def collapsed(run: RunData) -> list[int]:
    """Returns the agents whose latents have collapsed."""
    return [agent for agent in run.agents if health(run, agent).verdict == COLLAPSED]


def collapse_monitors(run: RunData) -> html.Html:
    """Rank, spread and size of every agent's latents at the end, with a verdict."""
    states = {f"agent {a} (camera {run.camera(a)})": health(run, a) for a in run.agents}
    states = {name: state for name, state in states.items() if math.isfinite(state.rankme)}
    if not states:
        return html.missing("metrics.jsonl holds no evaluations, so collapse was not watched.")
    rows = [Row(name, {**asdict(s), "verdict": s.verdict}) for name, s in states.items()]
    bad = [f"{name} is {s.verdict}" for name, s in states.items() if s.verdict != HEALTHY]
    summary = f"{'; '.join(bad).capitalize()}." if bad else "All agents are healthy."
    caption = (
        "At the last evaluation. Collapsed: RankMe below 2, or a feature's spread below 0.1 % of "
        "the latents' norm. Low rank: RankMe below a tenth of D. RankMe is of centred latents."
    )
    grid = tables.to_html(Table(_COLUMNS, rows, "agent", caption))
    return html.join(html.paragraph(summary, class_="warning" if bad else "ok"), grid)
