"""Alignment against NumPy, SciPy and scikit-learn on the same arrays, in CPU-seconds.

    python -m experiments.bench_alignment            # 20,000 pairs, 384 features, 5,000 test rows
    python -m experiments.bench_alignment --small    # a minute on a laptop

Every program is compiled before it is timed. CPU-seconds of the whole process are compared, so
that neither side gains by using more cores. Needs scipy and scikit-learn.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.neighbors import NearestNeighbors

from socialjepa_jax import alignment
from socialjepa_jax.alignment import geometry, similarity

_SMALL = flags.DEFINE_bool("small", False, "4,000 pairs, 64 features, 1,000 test rows.")
_LARGE = flags.DEFINE_integer("large", 20000, "Test rows of the floor comparison; 0 skips it.")
KS = (1, 5, 10, 20, 50)


def make_pairs(count: int, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two noisy linear views of one decaying spectrum, float32 [count, dim]."""
    rng = np.random.default_rng(seed)
    spectrum = np.exp(-np.arange(dim) / (dim / 4))
    mixing = np.random.default_rng(99).normal(size=(dim, dim)) / np.sqrt(dim)
    x = rng.normal(size=(count, dim)) * spectrum
    y = x @ mixing + 0.3 * rng.normal(size=(count, dim))
    return x.astype(np.float32), y.astype(np.float32)


def naive(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> dict[str, float]:
    """Algorithm 1 as one writes it with NumPy, SciPy and scikit-learn."""
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


def timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """What `run` returns, its CPU-seconds and its seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    value = run()
    return value, time.process_time() - cpu, time.perf_counter() - wall


def show(name: str, ours: float, theirs: float, error: float | None, wanted: str) -> None:
    """One row of the table."""
    accuracy = "" if error is None else f"{error:.1e}"
    print(f"{name:44s} {ours:8.2f} {theirs:8.2f} {theirs / ours:7.1f}x {accuracy:>9s}  {wanted}")


def bench_protocol(n_train: int, n_test: int, dim: int) -> None:
    """Fit and all metrics."""
    train, test = make_pairs(n_train, dim, 0), make_pairs(n_test, dim, 1)

    def ours() -> dict[str, float]:
        return alignment.evaluate(alignment.fit(*train), *test, neighbors=KS)

    ours()
    fast, cpu, _ = timed(ours)
    slow, reference, _ = timed(lambda: naive(*train, *test))
    error = max(abs(fast[key] - slow[key]) for key in slow)
    name = f"fit + all metrics, {n_train} + {n_test} x {dim}"
    show(name, cpu, reference, error, "8x")


def bench_dsc(n_test: int, dim: int) -> None:
    """The rank correlation of distances alone, by the streamed histogram."""
    x, y = make_pairs(n_test, dim, 2)
    alignment.dsc(x, y, exact=False)
    fast, cpu, _ = timed(lambda: alignment.dsc(x, y, exact=False))
    slow, reference, _ = timed(lambda: spearmanr(pdist(x), pdist(y)).statistic)
    show(f"DSC, {n_test} x {dim}", cpu, reference, abs(fast - slow), "20x, 1e-6")


def bench_cka(n_test: int, dim: int) -> None:
    """Linear CKA from features against kernels."""
    x, y = make_pairs(n_test, dim, 3)
    fast, cpu, _ = timed(lambda: similarity.cka(x, y))

    def kernels() -> float:
        a, b = x - x.mean(0), y - y.mean(0)
        k, l = a @ a.T, b @ b.T
        return float(np.sum(k * l) / np.sqrt(np.sum(k * k) * np.sum(l * l)))

    slow, reference, _ = timed(kernels)
    show(f"CKA, {n_test} x {dim}", cpu, reference, abs(fast - slow), "")


def bench_floor(n_test: int, dim: int) -> None:
    """DSC and NOS@10 in one pass against nothing but its matrix products."""
    x, y = make_pairs(n_test, dim, 4)
    block = 200 if n_test % 200 == 0 else n_test

    @jax.jit
    def products(z_ND: jax.Array) -> jax.Array:
        rows = z_ND.reshape(-1, block, dim)
        return jax.lax.map(lambda z_BD: jnp.sum(z_BD @ z_ND.T), rows)

    spaces = [jnp.asarray(z) for z in (x, y)]
    for z in spaces:
        products(z).block_until_ready()
    _, floor, _ = timed(lambda: [products(z).block_until_ready() for z in spaces])
    alignment.compare(x[: n_test // 2], y[: n_test // 2], (10,), exact=False)
    alignment.compare(x, y, (10,), exact=False)
    _, cpu, wall = timed(lambda: geometry.compare(x, y, (10,), exact=False))
    name = f"DSC + NOS@10, {n_test} x {dim}: share of floor"
    print(f"{name:44s} {cpu:8.2f} {floor:8.2f} {floor / cpu:7.0%}            65 %")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"({wall:.1f} s; peak memory of the whole process {peak:.2f} GiB)")


def main(argv: list[str]) -> None:
    """Prints the table."""
    del argv
    print(f"{'CPU-seconds':44s} {'ours':>8s} {'others':>8s} {'ratio':>8s} {'error':>9s}  wanted")
    sizes = (4000, 1000, 64) if _SMALL.value else (20000, 5000, 384)
    dim = sizes[2]
    if _LARGE.value:
        bench_floor(2000 if _SMALL.value else _LARGE.value, dim)
    bench_dsc(1000 if _SMALL.value else 3000, dim)
    bench_cka(sizes[1], dim)
    bench_protocol(*sizes)


if __name__ == "__main__":
    app.run(main)
