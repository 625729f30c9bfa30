"""Verdict of a study in sentences: the decision, with the numbers that it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from socialjepa_jax.alignment.migration.ceilings import (
    BRIDGE,
    CEILING,
    OLD,
    RECALL,
    UNSEEN,
    Ceilings,
)
from socialjepa_jax.alignment.migration.decision import (
    CLASSIFIER,
    RISING,
    Decision,
    Probes,
    growth,
)
from socialjepa_jax.alignment.resampling import Interval
from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.report import html, tables

_OF_Y = "--queries_y too"  # what is missing beside queries of x
_LEVELS = (0.95, 0.8, 0.6)  # of recall@1 at which the curve is read
_MAPPED = {  # by `Decision.bridge`
    "yes": "they may go into the old index",
    "no": "they may not go into the old index",
    "not known": "whether they may go into the old index is not shown",
}
_MAPS = {"forward": "By W x", "regression": "by the reverse regression", "inverse": "by W⁻¹"}


def verdict(study: Study, names: tuple[str, str], decision: Decision, probes: Probes) -> html.Html:
    """Returns the decision and its reasons as paragraphs, the most important first."""
    answers = {
        "May the old index stay?": _search(study, names, decision),
        "May a classifier be carried over?": _classifiers(
            names, decision, probes, study.settings.retention
        ),
        "Are there pairs enough?": _pairs(study, decision),
    }
    parts = [html.definitions(answers)]
    if decision.warnings:
        warnings = [html.paragraph(sentence) for sentence in decision.warnings]
        parts.append(html.join(html.paragraph("Warnings:", class_="dim"), *warnings))
    lede = html.paragraph(_relation(study, names, decision), class_="lede")
    return html.join(lede, *parts)


def _relation(study: Study, names: tuple[str, str], decision: Decision) -> str:
    forward, interval = study.metrics["forward"], study.intervals["forward"]["r2"]
    r2, raw = forward["r2"], max(0.0, forward["r2_raw"])
    measured = f"R² {rounded(r2)}{_between(interval)}"
    null = study.null.samples["r2"]
    if decision.related == "not tested":
        return (
            f"On pairs it has not seen, a linear map of {names[0]} explains {100 * raw:.0f} % of "
            f"the variance of {names[1]} ({measured}; shuffled pairs were not tried)."
        )
    shuffled = (
        f"in {len(null)} fits on shuffled pairs it was never above {rounded(float(null.max()))}"
    )
    if decision.related:
        how = "carries" if raw >= 0.5 else "carries a part of"
        return (
            f"A linear map {how} {names[0]} over to {names[1]}: on pairs it has not seen it "
            f"explains {100 * raw:.0f} % of the variance of {names[1]} ({_units(r2, raw)}"
            f"{measured}; {shuffled})."
        )
    if study.null.p_value("r2") <= 0.05 and interval.high > 0:
        return (
            f"There is at most a weak linear relation between {names[0]} and {names[1]}: "
            f"on pairs the map has not seen, {measured}; {shuffled}. More pairs may settle it."
        )
    return (
        f"No linear relation between {names[0]} and {names[1]} was found: on pairs the map has "
        f"not seen, {measured}; {shuffled}. Either the two have nothing linear in common, or "
        "the rows do not belong together: check their order, or pair them by ids."
    )


def _units(r2: float, raw: float) -> str:
    return "" if rounded(r2) == rounded(raw) else "with all features given equal weight: "


def _search(study: Study, names: tuple[str, str], decision: Decision) -> str:
    ceilings, share = study.ceilings, study.settings.retention
    if ceilings is None or CEILING not in ceilings.ways:
        return _without_queries(study, names)
    full, kept = ceilings.ways[CEILING], ceilings.ways[BRIDGE]
    old = ""
    if OLD in ceilings.ways:
        recall = _percent(ceilings.ways[OLD].scores[RECALL])
        old = f" by the index of {names[0]} with its own queries {recall},"
    found = (
        f"First answers of {ceilings.number:,} queries:{old} by the index of {names[0]} with "
        f"queries of {names[1]} mapped back by the reverse regression "
        f"{_percent(kept.scores[RECALL])}, after full re-embedding {_percent(full.scores[RECALL])}."
    )
    if not full.scores[RECALL]:
        return (
            f"Not known: full re-embedding answers no query first. {found} Check --answers: ids of "
            "documents if the files have --ids_x and --ids_y, else numbers of rows."
        )
    found += (
        f" Mapped queries keep {_percent(kept.retention)} of that, {_shares(kept.interval)}; the "
        f"limit is {_percent(share)} (--retention): {_MAPPED[decision.bridge]}."
    )
    return {
        "keep": f"Yes, while queries are embedded as {names[0]} is: {_old_index(ceilings)} {found}",
        "bridge": f"Yes, with queries of {names[1]} mapped back. {found}",
        "re-embed": f"No, embed the documents anew with {names[1]}. {found}",
        "measure with queries": f"Not known: measure more queries{_how_many(ceilings, share)}. "
        f"{found}",
    }[decision.search]


def _how_many(ceilings: Ceilings, share: float) -> str:
    """Says how many queries a yes needs at least: intervals are never narrower than a few."""
    if share >= 1.0 or ceilings.number >= (least := math.ceil(UNSEEN / (1.0 - share))):
        return ""
    return f", {least:,} at least, since intervals are ±{UNSEEN:.0f} queries wide or more"


def _old_index(ceilings: Ceilings) -> str:
    low, high = ceilings.gain_interval.low, ceilings.gain_interval.high
    return (
        f"full re-embedding is not clearly better ({rounded(100 * ceilings.gain, 1)} points, 95 % "
        f"interval {rounded(100 * low, 1)} to {rounded(100 * high, 1)})."
    )


def _without_queries(study: Study, names: tuple[str, str]) -> str:
    needed = "--queries_x, --queries_y, --answers"
    asked = f"Not known: measure with queries ({needed if study.ceilings is None else _OF_Y})."
    back = study.overlap.get(BRIDGE)
    if back is None:
        return asked
    return (
        f"{asked} From documents alone: of the 10 items nearest to an item of {names[1]}, "
        f"{_percent(back.value)} are among the 10 nearest in {names[0]} when it is mapped back"
        f"{_between(back.interval)}.{_by_difficulty(study)}"
    )


def _by_difficulty(study: Study) -> str:
    """Reads the curve at three degrees of difficulty, where it reaches them."""
    recalls, kept = (
        [getattr(point, key) for point in study.curve][::-1] for key in ("recall", "retention")
    )
    levels = [level for level in _LEVELS if recalls and recalls[0] <= level <= recalls[-1]]
    if not levels:
        return ""
    asked = _listed([_percent(level) for level in levels])
    found = _listed([_percent(float(np.interp(level, recalls, kept))) for level in levels])
    return (
        f" Of made queries that full re-embedding answers first in {asked} of cases, mapped ones "
        f"keep {found} of these answers; real queries may be easier or harder to map."
    )


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def _classifiers(names: tuple[str, str], decision: Decision, probes: Probes, share: float) -> str:
    if decision.classifiers == "no labels":
        return "Not known: give --labels."
    own, carried, oracle, frequent = (
        _percent(probes[name][CLASSIFIER]) for name in ("own", "regression", "oracle", "frequent")
    )
    first = {"carry": "Yes.", "do not carry": "No."}
    return (
        f"{first[decision.classifiers]} A logistic classifier of {names[0]} is right on {own} of "
        f"the held-out items there, and on {carried} in {names[1]} when it is carried by the "
        f"reverse regression; one trained anew on {names[1]} on {oracle}, the most frequent class "
        f"alone on {frequent}. The limit is {_percent(share)} of what it gains on {names[0]} over "
        "the most frequent class (--retention)."
    )


def _pairs(study: Study, decision: Decision) -> str:
    found, held = growth(study.budget), study.split.num_held_out
    first = "Yes." if decision.pairs == "enough" else "No, R² still rises with their number."
    if decision.related is False:
        first = "Not known: no linear relation was found, which more such pairs may not change."
    said = (
        f"{first} From {found.fewer:,} to {found.pairs:,} pairs R² rose by "
        f"{rounded(found.rise, 3)}, {rounded(found.doubling, 3)} a doubling (the limit is "
        f"{RISING})."
    )
    if decision.pairs == "get more" and held > study.linear_map.n_train:
        said += f" {held:,} pairs are held out: a smaller --test_fraction leaves more to fit."
    return said


def distances(study: Study, decision: Decision) -> html.Html:
    """Compares distances through the maps with those of no map; nothing of unrelated spaces."""
    if decision.related is False:
        return html.Html("")
    no_map = study.metrics["none"]["dsc"]
    parts = [_distances_through(study, back, words) for back, words in _MAPS.items()]
    return html.paragraph(
        f"Distances: without any map the two spaces agree at DSC {rounded(no_map)} (1: the same "
        f"order of distances). {'; '.join(parts)}."
    )


def _distances_through(study: Study, back: str, words: str) -> str:
    """States the DSC through the map, and if it differs from no map beyond chance."""
    difference = study.differences[back]["dsc"]
    value = f"{words}: {rounded(study.metrics[back]['dsc'])}"
    if not difference.known:
        return value
    small = max(abs(difference.low), abs(difference.high)) < 0.005  # not visible in two digits
    if small or difference.low <= 0 <= difference.high:
        return f"{value}, no clear difference"
    kind = "better" if difference.low > 0 else "worse"
    return f"{value}, {kind} by {_range(_absolute(difference))}"


def _absolute(difference: Interval) -> Interval:
    low, high = sorted((abs(difference.low), abs(difference.high)))
    return Interval(low, high)


def rounded(value: float, digits: int = 2) -> str:
    """Formats a number with two digits, or others, for sentences."""
    return tables.format_number(round(value, digits) + 0.0, digits)  # + 0.0: not -0


def _range(interval: Interval) -> str:
    return f"{rounded(interval.low)} to {rounded(interval.high)}"


def _shares(interval: Interval) -> str:
    if not interval.known:
        return "without an interval"
    return f"95 % interval {_percent(interval.low)} to {_percent(interval.high)}"


def _between(interval: Interval) -> str:
    return f", 95 % interval {_range(interval)}" if interval.known else ""


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.1f} %"
