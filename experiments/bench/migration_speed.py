"""Time and memory of the alignment beside isotrieve, rebasis, SciPy and scikit-learn.

Fits of 20,000 and 100,000 pairs of 384 features in float32, evaluation of 1,000 held-out pairs, and
search of 1,000 queries in the whole index. CPU time of the process on one thread, the least of
repeats that alternate. Fits of ours and of isotrieve go both ways, those of the others one way;
rebasis rotates in float32. Tools that are not installed are left out (isotrieve, and rebasis, which
needs Python 3.12).

Command: taskset -c 0 python -m experiments.bench.migration_speed [--small] [--repeats=3] [--out=F]
Cost: ten minutes on one CPU core, in 4 GiB; `--small` (2,000 x 32) ten seconds.
Expected: faster than isotrieve everywhere, than scikit-learn but for the fixed ridge of 20,000
pairs (0.89), than rebasis nowhere (0.54 to 0.89); docs/benchmarks.md says why.
"""

import importlib.util
import resource
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from absl import flags

from experiments.bench import results
from experiments.bench.alignment import make_pairs
from experiments.bench.results import Result
from socialjepa_jax import alignment
from socialjepa_jax.alignment.migration.search import Index, answer_ranks
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.errors import check_positive
from socialjepa_jax.running import launch

DIM, QUERIES = 384, 1_000


def least(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Least CPU seconds of calls that alternate."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.process_time()
            call()
            taken[name].append(time.process_time() - start)
    return {name: min(values) for name, values in taken.items()}


def speed(count: int, dim: int, repeats: int) -> Iterator[Result]:
    """CPU seconds of every tool for what ours does too, over ours."""
    x, y = make_pairs(count, dim, 0)
    answers = np.random.default_rng(0).choice(count, min(QUERIES, count // 2), replace=False)
    for job, calls in _jobs(x, y, answers).items():
        taken = least(calls, repeats)
        ours = taken.pop("ours")
        yield Result(f"{count:,} x {dim}: {job}, ours (s)", ours)
        for tool, seconds in taken.items():
            yield Result(f"{count:,} x {dim}: {job}, {tool} over ours", seconds / ours, 1.0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield Result(f"{count:,} x {dim}: peak memory of all (GiB)", peak, 6.0, False)


def _jobs(x: np.ndarray, y: np.ndarray, answers: np.ndarray) -> dict[str, dict[str, Any]]:
    """Job -> tool -> call; both directions where a tool has two."""
    from scipy.linalg import orthogonal_procrustes
    from sklearn.linear_model import Ridge, RidgeCV
    from sklearn.neighbors import NearestNeighbors

    linear_map = alignment.fit(x, y)
    held = x[answers], y[answers]
    mapped = linear_map.forward(held[0])

    def evaluated() -> None:
        for z in (mapped, held[1]):
            NearestNeighbors(n_neighbors=11).fit(z).kneighbors()
        _spearman(mapped, held[1])

    jobs: dict[str, dict[str, Any]] = {
        "ridge": {
            "ours": lambda: alignment.fit(x, y, ridge=1e-3),
            "scikit-learn": lambda: Ridge(alpha=1e-3).fit(x.astype(np.float64), y),
        },
        "procrustes": {
            "ours": lambda: alignment.fit(x, y, method="procrustes", standardize="center"),
            "SciPy": lambda: orthogonal_procrustes(x - x.mean(0), y - y.mean(0)),
        },
        "automatic ridge": {
            "ours": lambda: alignment.fit(x, y, ridge="auto"),
            "scikit-learn": lambda: RidgeCV(np.logspace(-3, 3, 25)).fit(x.astype(np.float64), y),
        },
        "evaluation of 1,000": {
            "ours": lambda: alignment.evaluate(linear_map, *held, back="forward", neighbors=(10,)),
            "SciPy and scikit-learn": evaluated,
        },
        "search of 1,000 queries": {
            "ours": lambda: answer_ranks(mapped, Index.of(y), answers[:, None], "cosine"),
            "scikit-learn": lambda: (
                NearestNeighbors(n_neighbors=10, metric="cosine").fit(y).kneighbors(mapped)
            ),
        },
    }
    _add_isotrieve(jobs, x, y)
    _add_rebasis(jobs, x, y)
    return jobs


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    from scipy.spatial.distance import pdist
    from scipy.stats import spearmanr

    return float(spearmanr(pdist(a), pdist(b)).statistic)


def _add_isotrieve(jobs: dict[str, dict[str, Any]], x: np.ndarray, y: np.ndarray) -> None:
    if importlib.util.find_spec("isotrieve") is None:
        return
    import isotrieve

    jobs["ridge"]["isotrieve"] = lambda: isotrieve.RidgeMapping(alpha=1e-3).fit(x, y)
    jobs["automatic ridge"]["isotrieve"] = lambda: isotrieve.RidgeMapping().fit(x, y)
    jobs["procrustes"]["isotrieve"] = lambda: isotrieve.OrthogonalProcrustesMapping().fit(x, y)


def _add_rebasis(jobs: dict[str, dict[str, Any]], x: np.ndarray, y: np.ndarray) -> None:
    if importlib.util.find_spec("rebasis") is None:
        return
    from rebasis.core.linear import LinearAdapter
    from rebasis.core.procrustes import CenteredProcrustesAdapter

    jobs["ridge"]["rebasis"] = lambda: LinearAdapter.fit(x, y)
    jobs["procrustes"]["rebasis"] = lambda: CenteredProcrustesAdapter.fit(x, y)


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_integer("repeats", 3, "Repeats of each timing, of which the least counts.")
    flags.DEFINE_bool("small", False, "2,000 pairs of 32 features.")
    flags.DEFINE_string("out", None, "JSON file.")


@one_blas_thread()
def main() -> None:
    """Prints the table and writes the figures."""
    warnings.filterwarnings("ignore")  # of peers, on sizes
    given = flags.FLAGS
    check_positive(**{"--repeats": given.repeats})
    out = results.out_file(given.out)
    sizes = [(2_000, 32)] if given.small else [(20_000, DIM), (100_000, DIM)]
    results.publish([row for size in sizes for row in speed(*size, given.repeats)], out)


if __name__ == "__main__":
    define_flags()
    launch.run(main)
