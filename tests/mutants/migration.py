"""Changes of the search by queries, its ceilings, its predictions and its decisions."""

from tests.mutants.mutant import Mutant

_FOLDER = "socialjepa_jax/alignment/migration"
_SEARCH, _CEILINGS = f"{_FOLDER}/search.py", f"{_FOLDER}/ceilings.py"
_DIFFICULTY, _DECISION = f"{_FOLDER}/difficulty.py", f"{_FOLDER}/decision.py"


def _tests(name: str) -> tuple[str]:
    return (f"tests/alignment/migration/{name}_test.py",)


MIGRATION = (
    Mutant(
        "an answer is ahead of its equals",
        _SEARCH,
        "np.sum(gap_QB >= -slack_Q1, axis=1)",
        "np.sum(gap_QB > slack_Q1, axis=1)",
        _tests("search"),
    ),
    Mutant(
        "other answers of a query stand in its way",
        _SEARCH,
        "        _remove(found_QB, answers_QK, start)\n",
        "",
        _tests("search"),
    ),
    Mutant(
        "the ideal gain is that of one answer",
        _SEARCH,
        "best_K[np.minimum(number_Q, DEPTH) - 1]",
        "best_K[0]",
        _tests("search"),
    ),
    Mutant(
        "far from the origin distances lose their digits",
        _SEARCH,
        'centre_D = answer_QKD.mean(axis=(0, 1)) if similarity == "l2" else np.zeros(1)',
        "centre_D = np.zeros(1)",
        _tests("search"),
    ),
    Mutant(
        "new queries go back by the inverse",
        _CEILINGS,
        's(s.linear_map.backward(s.of_y(), "regression"), Index.of(s.x))',
        's(s.linear_map.backward(s.of_y(), "inverse"), Index.of(s.x))',
        _tests("ceilings"),
    ),
    Mutant(
        "a mixed index holds mapped documents only",
        _CEILINGS,
        "np.where(half[numbers, None], old, new)",
        "old",
        _tests("ceilings"),
    ),
    Mutant(
        "hubs are rated by their whole cosine",
        _CEILINGS,
        "-near.mean(axis=1) / 2.0",
        "-near.mean(axis=1)",
        _tests("ceilings"),
    ),
    Mutant(
        "few queries have narrow intervals",
        _CEILINGS,
        "UNSEEN = 3.0",
        "UNSEEN = 0.0",
        _tests("ceilings"),
    ),
    Mutant(
        "queries of one answer are drawn apart",
        _CEILINGS,
        "return resampling.group_weights(first_Q, resamples, seed)",
        "return resampling.group_weights(np.arange(len(queries)), resamples, seed)",
        _tests("ceilings"),
    ),
    Mutant(
        "offsets are carried backwards",
        _DIFFICULTY,
        "query_PE = np.asarray(documents[1][rows_P], np.float64) + offset_PE",
        "query_PE = np.asarray(documents[1][rows_P], np.float64) - offset_PE",
        _tests("difficulty"),
    ),
    Mutant(
        "the worse estimate has the larger weight",
        _DIFFICULTY,
        "weight = measured_variance / (measured_variance + made_variance)",
        "weight = made_variance / (measured_variance + made_variance)",
        _tests("difficulty"),
    ),
    Mutant(
        "an uncertain gain keeps the old index",
        _DECISION,
        'return "keep" if enough else "measure with queries"',
        'return "keep"',
        _tests("decision"),
    ),
    Mutant(
        "a bridge is advised by the middle of the interval",
        _DECISION,
        "if kept.known and kept.low >= retention:",
        "if kept.known and (kept.low + kept.high) / 2 >= retention:",
        _tests("decision"),
    ),
    Mutant(
        "answers of queries are fitted",
        "socialjepa_jax/alignment/study/study.py",
        "        first = queries.documents\n",
        "",
        ("tests/report/alignment/readback_test.py",),
    ),
)
