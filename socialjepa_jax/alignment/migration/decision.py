"""The decision that a study supports: on the search index, on classifiers, and on more pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from socialjepa_jax.alignment.migration.ceilings import BRIDGE, CEILING, OLD, RECALL, Ceilings
from socialjepa_jax.alignment.study import curves
from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.errors import check_one_of

CLASSIFIER = "logistic"
GATES = ("search", "bridge", "classifiers", "related")
RISING = 0.02  # gain in R2 from twice the pairs, above which more pairs are advised
_RAW_APART = 0.05  # difference between R2 in raw and in standardised units that is said
_NAMED = 10  # features in a sentence
_LOST = 5.0  # items that a stored copy must lose before it is said

Probes = Mapping[str, Mapping[str, float]]  # probe -> classifier -> accuracy


@dataclass(frozen=True)
class Decision:
    """What to do.

    Attributes:
        search: "keep": full re-embedding is not better than the old index, which finds at least
            `Settings.retention` of what it does | "bridge": new queries, mapped into the old index,
            keep that share | "re-embed": they do not | "measure with queries": these measurements
            cannot tell.
        bridge: new queries, mapped into the old index, keep that share, whether or not queries of
            the old encoder could: "yes" | "no" | "not known".
        classifiers: "carry" | "do not carry" | "no labels".
        pairs: "enough" | "get more": twice the pairs would raise R2 by more than `RISING`.
        related: the spaces have something linear in common; "not tested" without a null.
        warnings: sentences.
    """

    search: str
    bridge: str
    classifiers: str
    pairs: str
    related: bool | str
    warnings: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The answers in one line."""
        names = [field.name for field in fields(self) if field.name != "warnings"]
        return "; ".join(f"{name}: {getattr(self, name)}" for name in names)

    def passes(self, gate: str) -> bool:
        """True if the answer of a gate of `GATES` is yes."""
        check_one_of(GATES, gate=gate)
        yes = {"search": ("keep", "bridge"), "bridge": ("yes",), "classifiers": ("carry",),
               "related": (True,)}  # fmt: skip
        return getattr(self, gate) in yes[gate]


def decide(study: Study, probes: Probes) -> Decision:
    """Returns the decision.

    Args:
        study: results.
        probes: accuracies on held-out items; empty without labels.
    """
    retention = study.settings.retention
    return Decision(
        decide_search(study.ceilings, retention),
        decide_bridge(study.ceilings, retention),
        decide_classifiers(probes, retention),
        decide_pairs(study.budget),
        is_related(study),
        tuple(_warnings(study)),
    )


def decide_search(ceilings: Ceilings | None, retention: float) -> str:
    """Decides by intervals over queries; see `Decision`.

    A gain whose interval reaches 0 because queries are few does not suffice to keep the old index.
    """
    if ceilings is None or CEILING not in ceilings.ways:
        return "measure with queries"
    if not ceilings.ways[CEILING].scores[RECALL]:
        return "measure with queries"
    if ceilings.gain_interval.known and ceilings.gain_interval.low <= 0.0:
        enough = ceilings.ways[OLD].interval.low >= retention
        return "keep" if enough else "measure with queries"
    answers = {"yes": "bridge", "no": "re-embed", "not known": "measure with queries"}
    return answers[decide_bridge(ceilings, retention)]


def decide_bridge(ceilings: Ceilings | None, retention: float) -> str:
    """Decides whether new queries, mapped into the old index, keep their share of first answers."""
    if ceilings is None or CEILING not in ceilings.ways:
        return "not known"
    kept = ceilings.ways[BRIDGE].interval
    if kept.known and kept.low >= retention:
        return "yes"
    return "no" if kept.known and kept.high < retention else "not known"


def decide_classifiers(probes: Probes, retention: float) -> str:
    """Decides whether a probe carried to y does what it did on x.

    Its accuracy above that of the most frequent class must be at least `retention` of what it was
    on x, and that must be above it.
    """
    if not probes:
        return "no labels"
    level = probes["frequent"][CLASSIFIER]
    own, carried = (probes[name][CLASSIFIER] - level for name in ("own", "regression"))
    return "carry" if own > 0.0 and carried >= retention * own else "do not carry"


@dataclass(frozen=True)
class Growth:
    """Rise of R2 at the end of the curve of pairs.

    Attributes:
        fewer: the number of pairs that is compared, at most 2/3 of all.
        pairs: all fitted pairs.
        rise: of R2 between the two.
        doubling: of R2 for twice the pairs, if it is the same for every doubling between the two.
    """

    fewer: int
    pairs: int
    rise: float
    doubling: float


def decide_pairs(budget: list[curves.Row]) -> str:
    """Decides whether R2 still rises with the number of pairs."""
    return "get more" if growth(budget).doubling > RISING else "enough"


def growth(budget: list[curves.Row]) -> Growth:
    """Measures how R2 rises along the curve of a study."""
    pairs = np.unique([row["pairs"] for row in budget])
    r2 = [np.mean([row["r2"] for row in budget if row["pairs"] == n]) for n in pairs]
    smaller = np.flatnonzero(pairs <= pairs[-1] / 1.5)
    if not len(smaller):
        return Growth(int(pairs[-1]), int(pairs[-1]), 0.0, 0.0)
    i = int(smaller[-1])
    rise = float(r2[-1] - r2[i])
    return Growth(int(pairs[i]), int(pairs[-1]), rise, rise / float(np.log2(pairs[-1] / pairs[i])))


def is_related(study: Study) -> bool | str:
    """True if the interval of R2 lies above zero and above every R2 of shuffled pairs."""
    if not len(study.null):
        return "not tested"
    interval = study.intervals["forward"]["r2"]
    low = interval.low if interval.known else study.metrics["forward"]["r2"]
    return bool(low > max(0.0, float(study.null.samples["r2"].max())))


def _warnings(study: Study) -> list[str]:
    found = [*_of_sizes(study), *_of_units(study), *_of_storage(study)]
    return [*found, *_of_fit(study)] if is_related(study) is not False else found


def _of_sizes(study: Study) -> list[str]:
    pairs, features = study.linear_map.n_train, study.linear_map.w.shape[1]
    if pairs >= features:
        return []
    rises = decide_pairs(study.budget) == "get more"
    than = "and still rising: get more" if rises else "and R² no longer rises with more"
    return [f"{pairs:,} pairs for {features:,} features {than}."]


def _of_units(study: Study) -> list[str]:
    forward = study.metrics["forward"]
    if abs(forward["r2"] - forward["r2_raw"]) <= _RAW_APART:
        return []
    return [
        f"R² is {forward['r2_raw']:.2f} in raw units of y, which searches and users of the map "
        f"see, and {forward['r2']:.2f} with all features of y given equal weight."
    ]


def _of_storage(study: Study) -> list[str]:
    scales = study.linear_map.x_scale, study.linear_map.y_scale
    found = [
        f"{len(columns)} of {len(scale)} features of {name} vary by less than 1/10,000 of the "
        f"median feature (features {', '.join(map(str, columns[:_NAMED]))}"
        f"{', ...' * (len(columns) > _NAMED)}): almost no weight in the map, since rounding in "
        "stored copies would drown them."
        for (name, columns), scale in zip(study.faint.items(), scales)
        if len(columns)
    ]
    given = study.storage["as given"]["recall@1"]
    for copy in ("float16", "int8"):
        kept = study.storage[copy]["recall@1"]
        if kept < 0.95 * given and (given - kept) * study.num_resampled >= _LOST:
            found.append(
                f"Stored as {copy}, items of x find themselves first in {100 * kept:.0f} % of "
                f"cases instead of {100 * given:.0f} %: keep more bits."
            )
    return found


def _of_fit(study: Study) -> list[str]:
    found, linear_map = [], study.linear_map
    if linear_map.kappa_effective > 1e3:
        found.append(
            f"W is badly conditioned: {linear_map.rank} of {len(linear_map.singular_values)} "
            f"directions are kept by W⁻¹, with condition number {linear_map.kappa_effective:,.0f}. "
            "Go back by the reverse regression."
        )
    robust = study.references["without the worst tenth of the pairs (robust)"]
    if robust.difference.low > 0:
        found.append(
            f"Leaving out the worst tenth of the pairs raises R² by {robust.difference.low:.2f} or "
            "more: some pairs may be wrong."
        )
    for name, scores in study.novelty_scores.items():
        far = float(np.mean(scores >= 0.99))
        if far > 0.05:
            found.append(
                f"Unfamiliar items: {far:.0%} of the held-out items of {name} lie farther out "
                "than 99 % of those the map was fitted on (1 % is expected)."
            )
    return found
