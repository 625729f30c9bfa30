"""The section of a run in motion that compares its agents with the theory."""

# ruff: noqa: RUF001 (a true minus sign is meant)

import math
import re

from socialjepa_jax.records import RowName
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.run.data import RunData, Score, mean, pick
from socialjepa_jax.report.tables import Cell, Column, Row, Table

_SPLIT = "state"
_KEYS = (
    "bound", "bound_epsilon", "bound_nonlinearity", "recovery_error",
    "rho_true", "rho_recovered", "rho_error", "transition_error",
)  # fmt: skip


def section(run: RunData) -> html.Html:
    """W against Q2 Q1^T, and every agent against theorem 3 and the dynamics of the state."""
    trained = pick(run, RowName.TRAINED, _SPLIT)
    if not any("rotation_angle" in s.metrics for s in trained):
        return html.missing("Latents and states differ in width, so the theory compares nothing.")
    return html.join(_rotation(trained), _bound(run, trained), _dynamics(run, trained))


def _rotation(trained: list[Score]) -> html.Html:
    """W against Q2 Q1^T, and the shrinkage of its singular values."""
    columns = (
        Column("rotation_angle", "angle to Q₂Q₁ᵀ, degrees", 2),
        Column("w_shrinkage", "mean singular value of W", 3),
        Column("w_shrinkage_predicted", "if errors were independent", 3),
    )
    cells: dict[str, Cell] = {c.key: mean(trained, c.key) for c in columns}
    explanation = (
        "If each agent holds the state up to a rotation, h = Q z, then W = Q₂Q₁ᵀ. The angle is "
        "between that matrix and the orthogonal factor of the fitted W. Noise in the first agent's "
        "latents shrinks a regression's singular values by the share that the state explains of "
        "them, unless both agents share part of their errors."
    )
    grid = tables.to_html(Table(columns, [Row("trained", cells)], "pairs of agents"))
    return html.join(html.paragraph(explanation), grid)


def _by_agent(trained: list[Score], key: str) -> dict[int, dict[str, float]]:
    """Returns the metrics of every agent that has this one, from the pairs that it is part of."""
    found: dict[int, dict[str, float]] = {}
    for score in trained:
        for name, end in ((score.x, "_x"), (score.y, "")):
            agent = re.fullmatch(r"agent_(\d+)", name)
            if agent and f"{key}{end}" in score.metrics:
                known = {c: score.metrics.get(f"{c}{end}", math.nan) for c in _KEYS}
                found.setdefault(int(agent[1]), known)
    return dict(sorted(found.items()))


def _bound(run: RunData, trained: list[Score]) -> html.Html:
    """Theorem 3's bound beside the error that it bounds, of every agent."""
    columns = (
        Column("recovery_error", "error: min E‖h − Qz‖²", 3, "", "over orthogonal Q"),
        Column("bound", "bound: D + (ε + D)²", 3),
        Column("bound_epsilon", "ε", 3, "", "‖Cov(h) − I‖"),
        Column("bound_nonlinearity", "D", 3, "", "excess of E‖h′ − h‖², over 2ρ(1 − ρ)"),
    )
    agents = _by_agent(trained, "bound")
    if not agents:
        return html.Html("")
    explanation = (
        "Theorem 3 bounds an agent's error by what needs no state: by how far the covariance of "
        "its latents is from I (ε), and by how much more they change from one moment to the next "
        "than a rotated state would (D). All of it is measured on images that no agent trained "
        "on. "
    )
    return html.join(html.paragraph(explanation + _verdict(agents)), _grid(run, columns, agents))


def _verdict(agents: dict[int, dict[str, float]]) -> str:
    """Says whether the errors keep to their bounds; nothing where one was not measured."""
    pairs = {agent: (m["recovery_error"], m["bound"]) for agent, m in agents.items()}
    if not all(map(math.isfinite, sum(pairs.values(), ()))):
        return ""
    if above := [f"agent {agent}" for agent, (error, bound) in pairs.items() if error > bound]:
        return (
            f"The error exceeds the bound of {', '.join(above)}: either the theorem's assumptions "
            "do not hold, or the walk is too short to estimate the bound."
        )
    return "Every agent's error is below its bound; the two columns say by how much."


def _dynamics(run: RunData, trained: list[Score]) -> html.Html:
    """The transition that every agent's latents follow beside that of the state."""
    columns = (
        Column("rho_recovered", "mean eigenvalue of A", 3, "", "real parts"),
        Column("rho_true", "mean ρ of the state", 3),
        Column("rho_error", "largest |eigenvalue − ρ|", 3, "", "both in order of size"),
        Column("transition_error", "‖QᵀAQ − diag ρ‖/√n", 3, "", "Q from the state to the latents"),
    )
    agents = _by_agent(trained, "rho_recovered")
    if not agents:
        return html.Html("")
    explanation = (
        "The state follows z' = diag(ρ) z + noise. An agent that holds it up to a rotation has "
        "h' = A h + B a + noise with A = Q diag(ρ) Qᵀ, whose eigenvalues are ρ whatever the "
        "rotation. Noise in the latents makes them smaller."
    )
    return html.join(html.paragraph(explanation), _grid(run, columns, agents))


def _grid(
    run: RunData, columns: tuple[Column, ...], agents: dict[int, dict[str, float]]
) -> html.Html:
    rows = [
        Row(f"agent {agent} (camera {run.camera(agent)})", metrics)
        for agent, metrics in agents.items()
    ]
    return tables.to_html(Table(columns, rows, "agents"))
