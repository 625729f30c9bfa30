"""Whether a run's latents have collapsed, in numbers and in a word."""

import math
from dataclasses import asdict, dataclass

from socialjepa_jax.report import html, tables
from socialjepa_jax.report.run import data
from socialjepa_jax.report.run.data import RunData
from socialjepa_jax.report.tables import Column, Row, Table
from socialjepa_jax.running.monitors import has_collapsed

COLLAPSED, LOW, HEALTHY = "collapsed", "low rank", "healthy"
_COLUMNS = (
    Column("rankme", "RankMe", 1),
    Column("dim", "of D", 0),
    Column("feature_std", "feature std", 3),
    Column("first_std", "at the start", 3),
    Column("latent_norm", "latent norm", 2),
    Column("verdict", "verdict"),
)


def verdict(rankme: float, dim: float, spread: float, norm: float) -> str:
    """Whether an agent's latents have collapsed: the rule of training, and a milder one.

    Args:
        rankme: Effective rank of the latents.
        dim: Latent dimensions D; NaN if unknown.
        spread: Mean standard deviation of the features.
        norm: Mean Euclidean norm of the latents.

    Returns:
        "collapsed": RankMe below 2, or a spread below 0.1 percent of the norm; "low rank": RankMe
        below a tenth of D; else "healthy"; "n/a" if there is no finite RankMe.
    """
    if not math.isfinite(rankme):
        return "n/a"
    if has_collapsed(rankme, spread, norm):
        return COLLAPSED
    return LOW if rankme < 0.1 * dim else HEALTHY


@dataclass(frozen=True)
class Health:
    """An agent's latents at the last evaluation; NaN where something was not measured."""

    rankme: float
    dim: float
    feature_std: float
    first_std: float
    latent_norm: float

    @property
    def verdict(self) -> str:
        """See `verdict`."""
        return verdict(self.rankme, self.dim, self.feature_std, self.latent_norm)


def health(run: RunData, agent: int) -> Health:
    """What the last evaluation says of an agent."""
    ends = {
        key: data.curve(run.evals, f"agent_{agent}/{key}")[1]
        for key in ("rankme", "feature_std", "latent_norm")
    }
    last = {key: float(values[-1]) if len(values) else math.nan for key, values in ends.items()}
    first = float(ends["feature_std"][0]) if len(ends["feature_std"]) else math.nan
    dim = float(run.latents[agent].z.shape[1]) if agent in run.latents else math.nan
    return Health(dim=dim, first_std=first, **last)


def collapsed(run: RunData) -> list[int]:
    """The agents whose latents have collapsed."""
    return [agent for agent in run.agents if health(run, agent).verdict == COLLAPSED]


def monitors(run: RunData) -> html.Html:
    """Rank, spread and size of every agent's latents at the end, with a verdict."""
    found = {f"agent {a} (camera {run.camera(a)})": health(run, a) for a in run.agents}
    found = {name: state for name, state in found.items() if math.isfinite(state.rankme)}
    if not found:
        return html.missing("metrics.jsonl holds no evaluations, so collapse was not watched.")
    rows = [Row(name, {**asdict(state), "verdict": state.verdict}) for name, state in found.items()]
    bad = [f"{name} is {s.verdict}" for name, s in found.items() if s.verdict != HEALTHY]
    summary = f"{'; '.join(bad).capitalize()}." if bad else "All agents are healthy."
    caption = (
        "At the last evaluation. Collapsed: RankMe below 2, or a feature's spread below 0.1 % of "
        "the latents' norm. Low rank: RankMe below a tenth of D. RankMe is of centred latents."
    )
    grid = tables.to_html(Table(_COLUMNS, rows, "agent", caption))
    return html.join(html.paragraph(summary, class_="warning" if bad else "ok"), grid)
