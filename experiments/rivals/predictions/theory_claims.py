"""The predictions of `theory`, judged on its rows."""

from collections.abc import Mapping

import numpy as np

from experiments.findings import Claim, Rows
from experiments.motion import pairs
from experiments.rivals.predictions.agents import METHOD
from experiments.rivals.predictions.checkpoints import (
    BETTER,
    last,
    log_kappa,
    methods,
    with_loss,
    with_step,
    within_step,
)
from experiments.rivals.predictions.environments import (
    ENVIRONMENTS,
    MOVING,
    SAME,
    SHUFFLED,
    TOYS_ELSEWHERE,
    UNTRAINED,
    environment,
    lost,
    median_kappa,
)
from experiments.rivals.tables import measures, reading
from socialjepa_jax.report.papers.social_jepa import SMALLNORB, SOCIAL_JEPA

LEARNT = {TOYS_ELSEWHERE: True, MOVING: True, ENVIRONMENTS[-1]: False}  # above untrained agents
STRONG, NEAR = 0.5, 0.05


def claims(rows: Rows) -> list[Claim]:
    """Judges the predictions of the head."""
    return [
        *(_falls(rows, measure) for measure in BETTER),
        *_confounded(rows),
        *(_apart(rows, name) for name in ENVIRONMENTS),
        *(_elsewhere(rows, name) for name in ENVIRONMENTS if name in LEARNT),
        *_stable(rows),
        *_conditioned(rows),
    ]


def _falls(rows: Rows, measure: str) -> Claim:
    """The number of methods in which a lower loss goes with better agreement."""
    found = {name: with_loss(rows, name, measure) for name in methods(rows)}
    strong = [name for name, rho in found.items() if BETTER[measure] * rho > STRONG]
    least = min(10, len(found))
    others = ", ".join(f"{name} {found[name]:.2f}" for name in found if name not in strong)
    return Claim(f"loss/{measure.partition('@')[0]}", "better at a lower loss", len(strong),
                 len(strong) >= least,
                 f"methods of {len(found)} with a correlation stronger than {STRONG:g}; "
                 f"the others: {others or 'none'}.")  # fmt: skip


def _confounded(rows: Rows) -> list[Claim]:
    """I-JEPA's own loss; the step beside the loss; the loss at the same step."""
    own = with_loss(rows, METHOD, "r2")
    names = methods(rows)
    timed = [
        abs(with_step(rows, n, "area")) >= abs(with_loss(rows, n, "area")) - 0.1 for n in names
    ]
    within = pairs.cell([within_step(rows, name, "area") for name in names])
    return [
        Claim("loss/ijepa", "R2 rises as the loss falls", own, own < -STRONG,
              "Spearman's of I-JEPA's loss and R2 over checkpoints."),
        Claim("time", "the step explains as much in nine methods", sum(timed),
              sum(timed) >= min(9, len(names)), f"methods of {len(names)}, by area."),
        Claim("within", "below 0 at the same step", within.value, within.high < 0,
              f"mean over methods of Spearman's of a pair's loss and area, {within.low:.3f} to "
              f"{within.high:.3f}."),
    ]  # fmt: skip


def _apart(rows: Rows, name: str) -> Claim:
    """Agents of one environment agree more than those of two; other toys count as one."""
    area, r2 = (lost(rows, name, measure) for measure in ("area", "r2"))
    if name == TOYS_ELSEWHERE:
        near = max(abs(area.value), abs(r2.value)) <= NEAR
        return Claim(f"environment/{name}", "within .05 in area and R2", area.value, near,
                     f"area with the same objects less that with others; R2, {r2.value:.3f}."
                     )  # fmt: skip
    return Claim(f"environment/{name}", "stronger in the same environment", area.value,
                 area.low > 0 and r2.low > 0,
                 f"the area of the same environment less this, {area.low:.3f} to "
                 f"{area.high:.3f}; R2, {r2.low:.3f} to {r2.high:.3f}.")  # fmt: skip


def _elsewhere(rows: Rows, name: str) -> Claim:
    """Agents of an environment have a larger area than untrained ones, or not."""
    gain = measures.interval(
        environment(rows, name, "area"), environment(rows, UNTRAINED, "area")
    )  # fmt: skip
    wanted = LEARNT[name]
    paper = "above untrained agents" if wanted else "not above untrained agents"
    return Claim(f"elsewhere/{name}", paper, gain.value, (gain.low > 0) == wanted,
                 f"area less that of untrained pairs, {gain.low:.3f} to {gain.high:.3f}."
                 )  # fmt: skip


def _stable(rows: Rows) -> list[Claim]:
    """The place of I-JEPA among methods by the spread over pairs."""
    names = methods(rows)
    r2 = {name: float(np.std(last(rows, name, "r2"))) for name in names}
    kappa = {name: float(np.std(log_kappa(rows, name))) for name in names}
    printed = SOCIAL_JEPA[7].value(SMALLNORB, "r2_std")
    return [
        Claim("stable/paper", printed, r2[METHOD], None,
              "standard deviation of I-JEPA's R2 over nine pairs; other data."),
        _place("stable/r2", r2, "standard deviations of R2"),
        _place("stable/kappa", kappa, "standard deviations of log10 of kappa"),
    ]  # fmt: skip


def _place(id: str, spread: Mapping[str, float], title: str) -> Claim:
    order = sorted(spread, key=spread.__getitem__)
    place = order.index(METHOD) + 1
    return Claim(id, "I-JEPA among the three most stable", place, place <= 3,
                 f"its place of {len(order)} by {title}; {order[0]} {spread[order[0]]:.4f}, "
                 f"I-JEPA {spread[METHOD]:.4f}, {order[-1]} {spread[order[-1]]:.4f}.")  # fmt: skip


def _conditioned(rows: Rows) -> list[Claim]:
    """Kappa beside R2 and area over methods, and of shuffled pairs."""
    names = methods(rows)
    kappa = {name: float(np.median(log_kappa(rows, name))) for name in names}
    rho = {
        measure: reading.spearman(kappa, {n: last(rows, n, measure).mean() for n in names})
        for measure in ("r2", "area")
    }
    true, wrong = (median_kappa(rows, name) for name in (SAME, SHUFFLED))
    return [
        Claim("kappa/methods", "kappa is lower where R2 is higher", rho["r2"], rho["r2"] < -STRONG,
              f"Spearman's over {len(names)} methods."),
        Claim("kappa/area", "kappa is lower where the area is larger", rho["area"],
              rho["area"] < -STRONG, f"Spearman's over {len(names)} methods."),
        Claim("kappa/shuffled", "more than twice that of true pairs", wrong / true,
              wrong > 2 * true, f"medians {wrong:.0f} of shuffled and {true:.0f} of true pairs."),
    ]  # fmt: skip
