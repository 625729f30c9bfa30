"""Verdict of a study in sentences, from its nulls and intervals."""

from __future__ import annotations

import numpy as np

from socialjepa_jax.alignment.resampling import Interval
from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.report import html, tables

_MAPS = {"forward": "By W x", "regression": "by the reverse regression", "inverse": "by W⁻¹"}


def is_related(study: Study) -> bool:
    """True if the interval of R2 lies above zero and above every R2 of shuffled pairs."""
    low = study.intervals["forward"]["r2"].low
    return low > max(0.0, float(study.null.samples["r2"].max()))


def verdict(study: Study, names: tuple[str, str]) -> html.Html:
    """Returns the findings as paragraphs, the most important first."""
    sentences = [_search(study, names)]
    if is_related(study):
        sentences += [_distances(study), *_warnings(study)]
    rest = [html.paragraph(sentence) for sentence in sentences]
    return html.join(html.paragraph(_relation(study, names), class_="lede"), *rest)


def _relation(study: Study, names: tuple[str, str]) -> str:
    r2, interval = study.metrics["forward"]["r2"], study.intervals["forward"]["r2"]
    null = study.null.samples["r2"]
    measured = f"R² {rounded(r2)}, 95 % interval {_range(interval)}"
    shuffled = (
        f"in {len(null)} fits on shuffled pairs it was never above {rounded(float(null.max()))}"
    )
    if is_related(study):
        how = "carries" if r2 >= 0.5 else "carries a part of"
        return (
            f"A linear map {how} {names[0]} over to {names[1]}: on pairs it has not seen it "
            f"explains {100 * r2:.0f} % of the variance of {names[1]} ({measured}; {shuffled})."
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


def _search(study: Study, names: tuple[str, str]) -> str:
    scores, count = study.searches["x -> y, forward"].scores, study.num_test
    ten = min(10, count)
    return (
        f"Search: an item of {names[0]}, mapped, finds itself first among {count:,} items of "
        f"{names[1]} in {_percent(scores['recall@1'])} of cases and among the first {ten} "
        f"in {_percent(scores['recall@10'])} (by chance {_percent(1 / count)} and "
        f"{_percent(ten / count)})."
    )


def _distances(study: Study) -> str:
    no_map = study.metrics["none"]["dsc"]
    parts = [_distances_through(study, back, words) for back, words in _MAPS.items()]
    return (
        f"Distances: without any map the two spaces agree at DSC {rounded(no_map)} (1: the same "
        f"order of distances). {'; '.join(parts)}."
    )


def _distances_through(study: Study, back: str, words: str) -> str:
    """States the DSC through the map, and if it differs from no map beyond chance."""
    difference = study.differences[back]["dsc"]
    value = f"{words}: {rounded(study.metrics[back]['dsc'])}"
    small = max(abs(difference.low), abs(difference.high)) < 0.005  # not visible in two digits
    if small or difference.low <= 0 <= difference.high:
        return f"{value}, no clear difference"
    kind = "better" if difference.low > 0 else "worse"
    return f"{value}, {kind} by {_range(_absolute(difference))}"


def _absolute(difference: Interval) -> Interval:
    low, high = sorted((abs(difference.low), abs(difference.high)))
    return Interval(low, high)


def _warnings(study: Study) -> list[str]:
    warnings, linear_map = [], study.linear_map
    if linear_map.kappa_effective > 1e3 or linear_map.used_pinv:
        warnings.append(
            f"Inverse: W is badly conditioned (condition number "
            f"{tables.format_number(linear_map.kappa, 0)}, {linear_map.rank} of "
            f"{len(linear_map.singular_values)} directions kept), so W⁻¹ magnifies noise: go back "
            "by the reverse regression."
        )
    robust = study.references["without the worst tenth of the pairs (robust)"]
    if robust.difference.low > 0:
        warnings.append(
            f"Pairs: leaving out the worst tenth of the pairs raises R² by "
            f"{rounded(robust.difference.low)} or more: some pairs may be wrong."
        )
    stitch = study.references["this map + a small MLP"]
    if stitch.difference.low > 0.01:
        warnings.append(f"Not all is linear: a small MLP on top raises R² to {rounded(stitch.r2)}.")
    far = float(np.mean(study.novelty_scores >= 0.99))
    if far > 0.05:
        warnings.append(
            f"Unfamiliar items: {far:.0%} of the held-out items of x lie farther out than 99 % of "
            "those the map was fitted on (1 % is expected)."
        )
    return warnings


def rounded(value: float) -> str:
    """Formats a number with two digits, for sentences."""
    return tables.format_number(round(value, 2) + 0.0, 2)  # + 0.0: not -0


def _range(interval: Interval) -> str:
    return f"{rounded(interval.low)} to {rounded(interval.high)}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.1f} %"
