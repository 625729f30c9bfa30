"""Figures of experiments on the page of claims, as the pages in words show them."""

import pathlib
import re

from experiments.ledger.entries import ROOT
from socialjepa_jax.errors import InputError

DOCS = ROOT / "docs"
FIGURES = {  # experiment: the page that shows its figure, and the file beside that page
    "id_dirichlet": ("results.md", "id_dirichlet.png"),
    "motion_phase": ("results.md", "motion_phase.png"),
    "motion_unpaired": ("results.md", "motion_unpaired.png"),
    "motion_planning": ("results.md", "motion_planning.png"),
    "arm_factors": ("results.md", "arm_factors.png"),
    "reacher_ou": ("results.md", "reacher_rho.png"),
    "reacher_trajectory": ("results.md", "reacher_trajectory.png"),
    "reacher_planning": ("results.md", "reacher.png"),
    "table1_structure": ("tables/structure.md", "structure.png"),
    "table1_paradigms": ("tables/paradigms.md", "paradigms.png"),
    "table1_eth80": ("tables/photographs.md", "photographs.png"),
    "table1_cross_view": ("tables/predictions.md", "cross_view.png"),
    "table6_capacity": ("tables/predictions.md", "capacity.png"),
    "exp_predictions": ("tables/predictions.md", "predictions.png"),
    "fig6_projection": ("tables/figures.md", "projection.png"),
    "rivals_motion": ("tables/motion.md", "motion.png"),
    "table9": ("results.md", "table9.png"),
    "pairs_needed": ("results.md", "pairs_needed.png"),
    "who_teaches_whom": ("results.md", "who_teaches_whom.png"),
    "probe_labels": ("results.md", "probe_labels.png"),
}


def figure(experiment: str) -> str:
    """Returns an experiment's figure as Markdown, with its content in words; "" without one.

    Raises:
        InputError: the page that it is taken from does not show it.
    """
    if experiment not in FIGURES:
        return ""
    page, name = FIGURES[experiment]
    text = (DOCS / page).read_text("utf-8")
    alt = re.search(rf"!\[([^\]]+)\]\({re.escape(name)}\)", text)
    if not alt:
        raise InputError(f"docs/{page} shows no {name}")
    return f"![{alt[1]}]({pathlib.PurePosixPath(page).parent / name})\n\n[In words]({page}).\n"
