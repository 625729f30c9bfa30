"""The report of a training run: one HTML file, with its figures beside it as PNG files."""

# ruff: noqa: RUF001 (a true minus and a true times sign are meant)

import json
import math
from pathlib import Path

import numpy as np

from socialjepa_jax.data.base import Film, ViewDataset
from socialjepa_jax.performance import hardware
from socialjepa_jax.records import RowName
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.looks import look
from socialjepa_jax.report.papers import social_jepa
from socialjepa_jax.report.run import collapse, curves, data, failures, geometry, images, moving
from socialjepa_jax.report.run import scores as scores_lib
from socialjepa_jax.report.run.data import SPLITS, RunData, mean, pick, value
from socialjepa_jax.report.tables import Column, Row, Table, format_number


def write_run_report(workdir: Path, dataset: ViewDataset, film: Film | None = None) -> Path:
    """Writes `report.html` and `report_*.png` into a run's workdir.

    Reads config.json, metrics.jsonl, alignment.json and latents/agent_<k>.npz. A section whose
    file is missing says so.

    Args:
        workdir: The run's folder.
        dataset: The run's data set, for images and categories.
        film: A trajectory of a world in motion.

    Returns:
        The path of the page.
    """
    workdir = Path(workdir)
    run = data.read_run(workdir)
    page = workdir / "report.html"
    album = Album(page)
    if dataset.states is None:
        lede, sections = headline(run), _sections(run, dataset, album)
        if (shifted := scores_lib.shifted(run, dataset.domain)) is not None:
            sections["shift"] = (f"Fitted by {dataset.domain}, tested elsewhere", shifted)
    else:
        lede = moving.headline(run, dataset)
        sections = moving.sections(run, dataset, film, album) | _common(run, album)
    if (facts := images.known(dataset)) is not None:
        sections["data"] = ("What must be known of the data", facts)
    document = html.page(
        title=run.name,
        subtitle=_subtitle(run, dataset),
        lede=html.join(*lede),
        sections=sections,
    )
    page.write_text(document, encoding="utf-8", errors="backslashreplace")  # paths may be bytes
    return page


def _sections(run: RunData, dataset: ViewDataset, album: Album) -> dict[str, tuple[str, html.Html]]:
    pair = data.main_pair(run)
    fitted = [geometry.pair_view(run, pair, s, dataset.state_ids) for s in SPLITS] if pair else []
    views = [view for view in fitted if view is not None]
    main = views[0] if views else None
    return {
        "views": ("The same states, seen by each camera",
                  images.paired_views(dataset, album)),
        "adds": ("What training adds", curves.r2_against_step(run, album)),
        "metrics": ("Metrics and controls", scores_lib.metrics(run)),
        "training": ("Training", curves.training(run, album)),
        "collapse": ("Collapse monitors", monitors(run)),
        "planes": ("Two spaces, before and after W",
                   images.planes(main, dataset, album)),
        "neighbours": ("Neighbours across agents",
                       images.neighbours(run, main, dataset, album)),
        "nos": ("Neighbourhoods over k", scores_lib.neighbourhoods(run, album)),
        "spectrum": ("The matrix W", images.spectrum(views, album)),
        "back": ("Ways back", scores_lib.back_maps(run, album)),
        "probes": ("One agent's classifier, used by the other",
                   scores_lib.probes(run, len(set(dataset.labels.tolist())))),
        "environment": ("Environment and configuration", environment(run)),
    }  # fmt: skip


def _common(run: RunData, album: Album) -> dict[str, tuple[str, html.Html]]:
    """Sections that every run has, at the end of its page."""
    return {
        "training": ("Training", curves.training(run, album)),
        "collapse": ("Collapse monitors", monitors(run)),
        "environment": ("Environment and configuration", environment(run)),
    }


def monitors(run: RunData) -> html.Html:
    """Signs of failure of the objective, then the state of the latents."""
    return html.join(failures.sentences(run), collapse.collapse_monitors(run))


def _subtitle(run: RunData, dataset: ViewDataset) -> str:
    steps = max((line["step"] for line in (*run.train, *run.evals)), default=0)
    cameras = ", ".join(str(run.camera(agent)) for agent in run.agents)
    seen = f"{len(run.agents)} agents on cameras {cameras}" if run.agents else "no agents yet"
    size = "×".join(map(str, dataset.image_shape[:2]))
    return (
        f"{dataset.name}: {dataset.num_states} states, {dataset.num_cameras} cameras, "
        f"{size} pixels · {seen} · {steps} steps"
    )


def headline(run: RunData) -> list[html.Html]:
    """The result of the run: one sentence per split, and its numbers in large type."""
    sentences = {split: text for split in SPLITS if (text := split_sentence(run, split))}
    if not sentences:
        return [html.paragraph(scores_lib.NO_ALIGNMENT, class_="lede")]
    caution = (
        "Held-out objects: W was fitted on other objects. Held-out states: on other states, also "
        f"of the same objects. {_pretraining(run)}{_printed(run)} One run cannot say whether a "
        "difference would repeat: "
    )
    command = html.tag("code", "python -m experiments.honest_table")
    rest = " repeats it over seeds, with intervals over objects."
    results = [
        html.join(html.paragraph(text, class_="lede"), html.tiles(*_tiles(run, split)))
        for split, text in sentences.items()
    ]
    return [*results, html.paragraph(caution, command, rest, class_="dim")]


def _printed(run: RunData) -> str:
    if not run.beside_paper:
        return ""
    r2 = social_jepa.SOCIAL_JEPA[7].value(social_jepa.SMALLNORB, "r2")
    return f" The paper prints R² {format_number(r2)} for smallNORB."


def _pretraining(run: RunData) -> str:
    if run.config.get("pretrain_on") == "all":
        return "The agents were trained on all states, the held-out ones among them."
    return "The agents were trained on states that neither split holds out."


def split_sentence(run: RunData, split: str) -> str:
    """Compares R2 of the trained agents with the best control on one split; "" without scores."""
    scores = pick(run, RowName.TRAINED, split)
    if not scores:
        return ""
    trained = value(mean(scores, "r2"))
    share = f"{trained:.0%} of the variance" if trained >= 0 else "none of the variance"
    start = f"On {SPLITS[split]}, one matrix W explains {share} of the other agent's latents"
    if not math.isfinite(trained):
        start = f"On {SPLITS[split]}, how much one matrix W explains could not be measured"
    start += f" (R² {format_number(trained)})"
    best = data.best_control(run, split)
    if best is None:
        return f"{start}; no control was measured."
    control = f"the best control ({look(best[0]).label}) reaches {format_number(best[1])}"
    if collapsed := collapse.collapsed(run):
        named = ", ".join(f"agent {agent}" for agent in collapsed)
        return f"{start}; {control}. But {named} collapsed, and R² with collapsed latents is void."
    return f"{start}; {control}, so {_verdict(trained - best[1])}."


def _verdict(difference: float) -> str:
    if not math.isfinite(difference):
        return "there is nothing to compare"
    if round(difference, 3) > 0:
        return f"training adds {format_number(difference)}"
    return f"training adds nothing ({format_number(difference)})"


def _tiles(run: RunData, split: str) -> list[tuple[str, str]]:
    scores, best = pick(run, RowName.TRAINED, split), data.best_control(run, split)
    tiles = [(format_number(value(mean(scores, "r2"))), f"R² trained, {SPLITS[split]}")]
    if best:
        tiles.append((format_number(best[1]), f"best control: {look(best[0]).label}"))
    partialled = mean(pick(run, RowName.PARTIALLED, split), "r2")
    if partialled is not None:
        tiles.append((format_number(value(partialled)), "R² trained, shared factors removed"))
    return tiles


def speed(run: RunData) -> dict[str, str]:
    """Returns the median speed of training, the cost of an image and the hardware's peak rates."""
    speeds = {
        name: float(np.median(values))
        for name in hardware.SPEEDS
        if len(values := data.curve(run.train, name)[1])
    }
    facts = {"speed": hardware.shown(speeds)} if speeds else {}
    per_image = run.performance.get("flops_per_image")
    if isinstance(per_image, int | float):
        facts["model FLOPs"] = f"{per_image / 1e9:.3g} GFLOP an image and update"
    try:
        facts["measured hardware"] = hardware.from_json(run.performance["hardware"]).describe()
    except (KeyError, TypeError, ValueError):  # no performance.json, or of another format
        pass
    return facts


def environment(run: RunData) -> html.Html:
    """Versions, hardware and the configuration, which is folded."""
    if not run.config:
        return html.missing("The workdir has no config.json.")
    facts = [*sorted(run.versions.items()), *speed(run).items()]
    rows = [Row(name, {"is": str(text)}, kind="text") for name, text in facts]
    grid = tables.to_html(Table((Column("is", "value"),), rows, corner="name")) if rows else ""
    config = json.dumps(run.config, indent=2, ensure_ascii=False)
    return html.join(grid, html.folded("Configuration", html.tag("pre", config)))
