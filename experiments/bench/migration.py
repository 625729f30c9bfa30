"""Migrations of a search index beside isotrieve, rebasis and scikit-learn.

On the words of tests/golden and on 20 made migrations (`migrations`), every tool fits a map from
the new encoder to the old one on documents that answer no query, and says how much of full
re-embedding it will keep; the truth is that of its own map, on 4,000 queries that it does not see
(600 for the words). isotrieve says so from documents, by its gate; rebasis and scikit-learn measure
30 queries; ours predicts from documents and the same 30. Baselines: the mean retention of the other
families, and a line through their retention against the overlap of the 10 nearest. Decisions are
ours, with 600 queries; what is right was written down before (`migrations.right_answers`).
Tools that are not installed are left out (isotrieve, and rebasis, which needs Python 3.12). Time
and memory are those of `experiments.bench.migration_speed`.

Command: taskset -c 0 python -m experiments.bench.migration [--small] [--out=FILE.json]
Cost: two minutes on one CPU core; `--small` ten seconds.
Expected: error of predicted retention 0.020 (isotrieve 0.200, rebasis 0.049, scikit-learn 0.051,
constant 0.247, overlap 0.255); 19 of 20 intervals hold; 20 of 20 decisions are right.
"""

import dataclasses
import importlib.util
import pathlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from absl import flags

from experiments.bench import migrations, results
from experiments.bench.migrations import Migration, recall
from experiments.bench.results import Result
from socialjepa_jax.alignment.migration import ceilings, decision, difficulty
from socialjepa_jax.alignment.migration.queries import Queries
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.study.intervals import GroupBootstrap
from socialjepa_jax.alignment.study.retrieval import overlap_with_native
from socialjepa_jax.alignment.study.settings import Settings
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.records import write_json
from socialjepa_jax.running import launch

WORDS = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "words.npz"
SETTINGS = Settings()
Map = Callable[[Float64], Float64]  # rows of y -> rows of x


@dataclass(frozen=True)
class Outcome:
    """What a tool says of a migration, and what is true of its map.

    Attributes:
        tool: name.
        case: "words", or the seed.
        family: of the case.
        true: retention of the tool's map.
        predicted: what it says.
        low, high: its 90 % interval, or 80 % of isotrieve; NaN without.
        recall: recall@1 of the 600 queries through its map.
    """

    tool: str
    case: str
    family: str
    true: float
    predicted: float
    low: float = float("nan")
    high: float = float("nan")
    recall: float = float("nan")


def words() -> Migration:
    """The words with one typing error, as a migration; their queries are the truth too."""
    with np.load(WORDS) as file:
        names = "old_docs", "new_docs", "old_queries", "new_queries"
        x, y, query_x, query_y = (file[name].astype(np.float64) for name in names)
        answers = file["query_document"].astype(np.int64)
    return Migration("words", x, y, query_x, query_y, answers, query_x, query_y, answers)


def calibration(made: Migration, seed: int) -> np.ndarray:
    """Numbers of the queries that a tool may calibrate to."""
    order = np.random.default_rng([seed, 1]).permutation(len(made.answers))
    return order[: migrations.CALIBRATED]


def _measured(back: Map, made: Migration, picked: np.ndarray) -> float:
    query, answers = made.query_y[picked], made.answers[picked]
    full = recall(query, made.y, answers)
    return recall(back(query), made.x, answers) / full if full else float("nan")


def _outcome(tool: str, case: str, made: Migration, back: Map, said: Sequence[float]) -> Outcome:
    full = recall(made.true_y, made.y, made.true_answers)
    kept = recall(back(made.true_y), made.x, made.true_answers)
    found = recall(back(made.query_y), made.x, made.answers)
    low, high = said[1:] if len(said) > 1 else (float("nan"), float("nan"))
    return Outcome(tool, case, made.family, kept / full, said[0], low, high, found)


def of_ours(case: str, made: Migration, picked: np.ndarray) -> Outcome:
    """Ridge by the tool's defaults, and the prediction from documents and 30 queries."""
    linear_map = SETTINGS.fit(made.x[made.fitted], made.y[made.fitted])
    queries = Queries(None, made.query_y[picked], made.answers[picked, None])
    documents, held = (made.x, made.y), np.unique(made.answers)
    found = difficulty.predict_retention(linear_map, documents, held, queries, SETTINGS)
    said = (float("nan"),) if found is None else (found.value, found.low, found.high)
    return _outcome("ours", case, made, lambda z: linear_map.backward(z, "regression"), said)


def of_isotrieve(case: str, made: Migration, picked: np.ndarray) -> Outcome:
    """Its ridge with cross-validation, and its gate on documents that were not fitted."""
    import isotrieve
    from isotrieve.quality.gate import QualityGate

    fitted, held = made.fitted, np.unique(made.answers)
    mapping = isotrieve.RidgeMapping().fit(made.y[fitted], made.x[fitted])
    report = QualityGate().evaluate(mapping, made.y[held], made.x[held])
    said = report.predicted_retention, *report.prediction_interval
    return _outcome("isotrieve", case, made, mapping.transform, said)


def of_rebasis(case: str, made: Migration, picked: np.ndarray) -> Outcome:
    """The best of its closed forms on 30 queries, measured on them."""
    from rebasis.core.selection import CPU_ONLY_METHODS, fit_candidates

    fitted = made.fitted
    candidates = fit_candidates(
        made.y[fitted].astype(np.float32),
        made.x[fitted].astype(np.float32),
        methods=sorted(CPU_ONLY_METHODS),
    )

    def applied(candidate: Any) -> Map:
        return lambda z: candidate.adapter.apply(_unit(z).astype(np.float32)).astype(np.float64)

    maps = [applied(candidate) for candidate in candidates]
    scores = [_measured(back, made, picked) for back in maps]
    best = int(np.argmax(scores))
    return _outcome("rebasis", case, made, maps[best], (scores[best],))


def of_sklearn(case: str, made: Migration, picked: np.ndarray) -> Outcome:
    """Ridge with its own choice of the strength, measured on 30 queries."""
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(alphas=np.logspace(-3, 3, 13)).fit(made.y[made.fitted], made.x[made.fitted])
    return _outcome(
        "scikit-learn", case, made, model.predict, (_measured(model.predict, made, picked),)
    )


def _unit(z: Float64) -> Float64:
    return z / np.linalg.norm(z, axis=1, keepdims=True)


TOOLS = {"ours": (of_ours, ""), "isotrieve": (of_isotrieve, "isotrieve"),
         "rebasis": (of_rebasis, "rebasis"), "scikit-learn": (of_sklearn, "sklearn")}  # fmt: skip


def outcomes(seeds: Sequence[int]) -> Iterator[tuple[Outcome, bool | None]]:
    """Outcomes of all tools on the words and on made migrations.

    With ours stands if its decision is right, with others None.
    """
    cases = {"words": words(), **{str(seed): migrations.make(seed) for seed in seeds}}
    for number, (case, made) in enumerate(cases.items()):
        picked = calibration(made, number)
        for tool, (measure, module) in TOOLS.items():
            if module and importlib.util.find_spec(module) is None:
                continue
            outcome = measure(case, made, picked)
            yield outcome, decided(made, outcome) if tool == "ours" else None


def decided(made: Migration, ours: Outcome) -> bool:
    """True if the decision with all queries is one of the right answers."""
    linear_map = SETTINGS.fit(made.x[made.fitted], made.y[made.fitted])
    queries = Queries(made.query_x, made.query_y, made.answers[:, None])
    found = ceilings.search_all(linear_map, (made.x, made.y), queries, SETTINGS)
    gain = recall(made.true_y, made.y, made.true_answers)
    gain -= recall(made.true_x, made.x, made.true_answers)
    answer = decision.decide_search(found, SETTINGS.retention)
    return answer in migrations.right_answers(gain, ours.true, SETTINGS.retention)


def overlaps(seeds: Sequence[int]) -> dict[str, float]:
    """Overlap of the 10 nearest held-out documents through the map and in y, by case."""
    found = {}
    for case, made in {"words": words(), **{str(s): migrations.make(s) for s in seeds}}.items():
        linear_map = SETTINGS.fit(made.x[made.fitted], made.y[made.fitted])
        held = np.unique(made.answers)
        once = GroupBootstrap(np.ones((1, len(held))))
        sample = made.x[held], made.y[held]
        shared = overlap_with_native(linear_map, sample, once, SETTINGS.similarity)
        found[case] = shared["y_back_in_x"].value
    return found


def baselines(ours: Sequence[Outcome], overlap: Mapping[str, float]) -> dict[str, Float64]:
    """Errors of the two baselines on every case, fitted on the cases of other families."""
    true = np.array([outcome.true for outcome in ours])
    shared = np.array([overlap[outcome.case] for outcome in ours])
    errors: dict[str, list[float]] = {"constant": [], "overlap": []}
    for i, outcome in enumerate(ours):
        others = np.array([other.family != outcome.family for other in ours])
        slope, offset = np.polyfit(shared[others], true[others], 1)
        errors["constant"].append(abs(true[others].mean() - true[i]))
        line = np.clip(slope * shared[i] + offset, true[others].min(), true[others].max())
        errors["overlap"].append(abs(line - true[i]))
    return {name: np.array(values) for name, values in errors.items()}


def quality(
    found: Sequence[tuple[Outcome, bool | None]], overlap: Mapping[str, float]
) -> Iterator[Result]:
    """Rows of the table: errors of predictions, coverage, decisions, and recall of the words.

    Args:
        found: of `outcomes`.
        overlap: of `overlaps`.
    """
    made = [o for o, _ in found if o.case != "words"]
    ours = [o for o in made if o.tool == "ours"]
    true = np.array([o.true for o in ours])
    yield Result("true retention, least", float(true.min()), 0.25, False)
    yield Result("true retention, most", float(true.max()), 0.95)
    error = {
        tool: float(np.mean([abs(o.predicted - o.true) for o in made if o.tool == tool]))
        for tool in dict.fromkeys(o.tool for o in made)
    }
    for name, errors in baselines(ours, overlap).items():
        error[name] = float(errors.mean())
    best = min(error["constant"], error["overlap"])
    yield Result("ours: error of predicted retention", error.pop("ours"), best / 2, False)
    for tool, value in error.items():
        yield Result(f"{tool}: error of predicted retention", value)
    inside = float(np.mean([o.low <= o.true <= o.high for o in ours]))
    yield Result("ours: cover of 90 % intervals", inside, 0.8)
    right = [bool(r) for o, r in found if r is not None and o.case != "words"]
    yield Result("ours: right decisions", float(np.mean(right)), 1.0, note=f"of {len(right)}")
    for o, _ in found:
        if o.case == "words":
            note = f"retention {o.true:.3f}, said {o.predicted:.3f}"
            yield Result(f"{o.tool}: words, recall@1 in the old index", o.recall, note=note)


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_bool("small", False, "The words and two made migrations.")
    flags.DEFINE_string("out", None, "JSON file of the table.")
    flags.DEFINE_string("rows", None, "JSON file of what every tool says of every migration.")


@one_blas_thread()
def main() -> None:
    """Prints the table and writes the figures."""
    warnings.filterwarnings("ignore")  # of peers, on sizes
    out, rows = (results.out_file(flags.FLAGS[name].value, f"--{name}") for name in ("out", "rows"))
    seeds = (3, 4) if flags.FLAGS.small else migrations.SEEDS
    found, overlap = list(outcomes(seeds)), overlaps(seeds)
    if rows:
        said = [{**dataclasses.asdict(o), "right": right} for o, right in found]
        write_json(rows, {"outcomes": said, "overlap": overlap})
    results.publish([*quality(found, overlap)], out)


if __name__ == "__main__":
    define_flags()
    launch.run(main)
