"""Speed of the alignment against NumPy, SciPy and scikit-learn on the same arrays.

Every program is compiled before it is timed. The CPU time of the whole process is compared, so that
no side gains by using more cores, and the best of a few runs counts on either side. Needs
scikit-learn (`pip install socialjepa_jax[bench]`).

Command: taskset -c 0 python -m experiments.bench_alignment [--small] [--large=20000] [--repeats=3]
Cost: 2 minutes on one CPU core; `--small` (4,000 pairs of 64 features) 10 seconds.
Expected, without `--small` (20,000 pairs of 384 features, 5,000 test rows): fit and all metrics
11.3 to 12.7 times as fast (target 8); DSC of 3,000 rows 23.5 times (target 20), error 1.5e-7; DSC
and NOS@10 of 20,000 rows at 75 to 88 % of the speed of all N x N products (target 65 %), in
0.91 GiB (target 2).
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.neighbors import NearestNeighbors

from socialjepa_jax import alignment
from socialjepa_jax.alignment import similarity
from socialjepa_jax.errors import check_non_negative, check_positive

KS = (1, 5, 10, 20, 50)
Figures = dict[str, float]


def make_pairs(count: int, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two noisy linear views of one decaying spectrum, float32 [count, dim]."""
    rng = np.random.default_rng(seed)
    spectrum = np.exp(-np.arange(dim) / (dim / 4))
    mixing = np.random.default_rng(99).normal(size=(dim, dim)) / np.sqrt(dim)
    x = rng.normal(size=(count, dim)) * spectrum
    y = x @ mixing + 0.3 * rng.normal(size=(count, dim))
    return x.astype(np.float32), y.astype(np.float32)


def naive(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> Figures:
    """Algorithm 1 of the paper, written plainly with NumPy, SciPy and scikit-learn."""
    mean, scale = (np.stack([f(0) for f in (x.mean, y.mean)]), np.stack([x.std(0), y.std(0)]))
    x, x_test = ((z - mean[0]) / scale[0] for z in (x, x_test))
    y, y_test = ((z - mean[1]) / scale[1] for z in (y, y_test))
    w = np.linalg.solve(x.T @ x + 1e-3 * np.eye(x.shape[1]), x.T @ y).T
    back = y_test @ np.linalg.pinv(w).T
    residual = y_test - x_test @ w.T
    r2 = 1 - np.sum(residual**2) / np.sum((y_test - y_test.mean(0)) ** 2)
    lists = []
    for z in (x_test, back):
        found = NearestNeighbors(n_neighbors=max(KS)).fit(z).kneighbors(return_distance=False)
        lists.append(found)
    nos = {f"nos@{k}": 1 - _overlap(lists[0][:, :k], lists[1][:, :k]) for k in KS}
    a, b = x_test - x_test.mean(0), back - back.mean(0)
    norms = np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b)
    dsc = spearmanr(pdist(x_test), pdist(back)).statistic
    return {"r2": r2, "dsc": dsc, **nos, "cka": np.linalg.norm(a.T @ b) ** 2 / norms}


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean([len(np.intersect1d(p, q)) for p, q in zip(a, b)]) / a.shape[1])


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Returns the result of `run`, and the CPU time of the best of `--repeats` calls."""
    seconds = []
    for _ in range(flags.FLAGS.repeats):
        start = time.process_time()
        value = run()
        seconds.append(time.process_time() - start)
    return value, min(seconds)


def compare(
    name: str, ours: Callable[[], Figures], theirs: Callable[[], Figures], wanted: str
) -> None:
    """Times two functions and prints a row: seconds, ratio, largest difference of their figures."""
    ours()  # compiles
    (fast, seconds), (slow, reference) = timed(ours), timed(theirs)
    error = max(abs(fast[key] - slow[key]) for key in slow)
    ratio = reference / seconds
    print(f"{name:44s} {seconds:8.2f} {reference:8.2f} {ratio:7.1f}x {error:9.1e}  {wanted}")


def bench_protocol(n_train: int, n_test: int, dim: int) -> None:
    """Times the fit and all metrics."""
    train, test = make_pairs(n_train, dim, 0), make_pairs(n_test, dim, 1)
    compare(
        f"fit + all metrics, {n_train} + {n_test} x {dim}",
        lambda: alignment.evaluate(alignment.fit(*train), *test, neighbors=KS),
        lambda: naive(*train, *test),
        "8x",
    )


def bench_dsc(n_test: int, dim: int) -> None:
    """Times the rank correlation of distances alone, by the streamed histogram."""
    x, y = make_pairs(n_test, dim, 2)
    compare(
        f"DSC, {n_test} x {dim}",
        lambda: {"dsc": alignment.dsc(x, y, exact=False)},
        lambda: {"dsc": spearmanr(pdist(x), pdist(y)).statistic},
        "20x, 1e-6",
    )


def bench_cka(n_test: int, dim: int) -> None:
    """Times linear CKA from features against linear CKA from kernels."""
    x, y = make_pairs(n_test, dim, 3)

    def from_kernels() -> Figures:
        a, b = x - x.mean(0), y - y.mean(0)
        k, l = a @ a.T, b @ b.T
        return {"cka": np.sum(k * l) / np.sqrt(np.sum(k * k) * np.sum(l * l))}

    compare(f"CKA, {n_test} x {dim}", lambda: {"cka": similarity.cka(x, y)}, from_kernels, "")


def bench_floor(n_test: int, dim: int) -> None:
    """Times DSC and NOS@10 in one pass against the matrix products of all rows with all rows.

    The pass needs half of these products, so that its share of their speed can exceed 1.
    """
    x, y = make_pairs(n_test, dim, 4)
    side = 500  # rows of a block; the fastest products on CPUs

    @jax.jit
    def product(a_TD: jax.Array, b_TD: jax.Array) -> jax.Array:
        return a_TD @ b_TD.T

    def products() -> None:
        for blocks in spaces:
            for a_TD in blocks:
                for b_TD in blocks:
                    product(a_TD, b_TD).block_until_ready()

    spaces = [[jnp.asarray(z[i : i + side]) for i in range(0, n_test, side)] for z in (x, y)]
    products()
    alignment.compare(x, y, (10,), exact=False)
    _, floor = timed(products)
    _, cpu = timed(lambda: alignment.compare(x, y, (10,), exact=False))
    name, half = f"DSC + NOS@10, {n_test} x {dim}: share of floor", floor / 2
    print(f"{name:44s} {cpu:8.2f} {floor:8.2f} {floor / cpu:7.0%}            65 %")
    print(f"{'  share of half the products':44s} {cpu:8.2f} {half:8.2f} {half / cpu:7.0%}")


def bench_memory(n_train: int, n_test: int, dim: int) -> None:
    """Measures the peak memory of a process that fits and evaluates, its arrays included."""
    process = multiprocessing.get_context("spawn").Process(
        target=_whole_protocol, args=(n_train, n_test, dim)
    )
    process.start()
    process.join()
    if process.exitcode != 0:
        raise RuntimeError(f"the process ended with exit code {process.exitcode}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"{f'peak memory, {n_train} + {n_test} x {dim}':44s} {peak:8.2f} GiB{'':26s}  2 GiB")


def _whole_protocol(n_train: int, n_test: int, dim: int) -> None:
    linear_map = alignment.fit(*make_pairs(n_train, dim, 0))
    alignment.evaluate(linear_map, *make_pairs(n_test, dim, 1), neighbors=KS)


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_bool("small", False, "4,000 pairs, 64 features, 1,000 test rows.")
    flags.DEFINE_integer("large", 20000, "Test rows of products and memory; 0 skips them.")
    flags.DEFINE_integer("repeats", 3, "Runs of either side, of which the best counts.")


def main() -> None:
    """Prints the table."""
    given = flags.FLAGS
    check_positive(**{"--repeats": given.repeats})
    check_non_negative(**{"--large": given.large})
    print(f"{'CPU-seconds':44s} {'ours':>8s} {'others':>8s} {'ratio':>8s} {'error':>9s}  wanted")
    sizes = (4000, 1000, 64) if given.small else (20000, 5000, 384)
    dim = sizes[2]
    if given.large:
        large = 2000 if given.small else given.large
        bench_memory(sizes[0], large, dim)  # first: a child starts with its parent's peak
        bench_floor(large, dim)
    bench_dsc(1000 if given.small else 3000, dim)
    bench_cka(sizes[1], dim)
    bench_protocol(*sizes)
