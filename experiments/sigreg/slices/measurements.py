"""Rows of `sigreg_slices` on theorems 2, 3 and 5, without a verdict.

Shape key: N samples, D features, M slices.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from experiments.findings import Rows
from experiments.sigreg.runs import descend, x_distribution
from experiments.sigreg.slices import theory
from socialjepa_jax.sigreg import Statistic, epps_pulley, sample_directions, sigreg, univariate

LEVEL = 0.05
DIM, SLICES = 4, 64  # of level and power
SIZES = {"smoke": (20, 40), "cpu": (25, 50, 100, 200, 400, 800)}
SIZES["gpu"] = SIZES["paper"] = (*SIZES["cpu"], 1600, 3200)
DRAWS = {"smoke": 40, "cpu": 1000, "gpu": 10_000, "paper": 10_000}
DIMS = {"smoke": (4,), "cpu": (2, 4, 8, 16, 32, 64)}
DIMS["gpu"] = DIMS["paper"] = (2, 4, 8, 16, 32, 64, 128, 256)
MATCHED = 600  # samples of the distributions on few points
TESTS: dict[str, Statistic] = {"Epps-Pulley": epps_pulley, "VCReg": univariate.vcreg}

_normal = partial(lambda dim, key, num: jax.random.normal(key, (num, dim)), DIM)
ALTERNATIVES: dict[str, theory.Sampler] = {
    "null": _normal,
    "mean 0.3 in one coordinate": lambda key, num: _normal(key, num).at[:, 0].add(0.3),
    "scale 1.2": lambda key, num: 1.2 * _normal(key, num),
    "Laplace coordinates": lambda key, num: jax.random.laplace(key, (num, DIM)) / 2**0.5,
    "two clusters": lambda key, num: (
        _normal(key, num)
        .at[:, 0]
        .set(
            0.9 * jax.random.rademacher(key, (num,), jnp.float32)
            + 0.19**0.5 * jax.random.normal(jax.random.fold_in(key, 1), (num,))
        )
    ),
    "X in two coordinates": lambda key, num: x_distribution(key, num, DIM),
}


def smoothness(scale: str) -> Rows:
    """Theorem 5's worst case on the circle and on the sphere."""
    settings = {2: ((1.0, 2.0, 4.0), (4, 8, 16, 32, 64)), 3: ((1.5, 2.0, 4.0), (9, 25, 64, 144))}
    degree = {2: 160, 3: 24} if scale != "smoke" else {2: 40, 3: 14}
    rows = []
    for dim, (alphas, counts) in settings.items():
        harmonics = {2: theory.circle_harmonics, 3: theory.sphere_harmonics}[dim]
        for count in counts:
            random = np.asarray(sample_directions(jax.random.key(0), dim, count), np.float64)
            for kind, points in (
                ("even", theory.even_directions(dim, count)),
                ("random", random),
            ):
                basis = harmonics(points, degree[dim])
                rows += [
                    {
                        "theorem": 5,
                        "dim": dim,
                        "slices": count,
                        "kind": kind,
                        "alpha": alpha,
                        "error": theory.worst_error(*basis, alpha),
                    }
                    for alpha in alphas
                ]
    return rows


def sampling_error(scale: str) -> Rows:
    """Relative error of SIGReg over M directions against all of them, by sampler."""
    repeats = 8 if scale == "smoke" else 100
    rows = []
    for dim in (2, 8, 64) if scale != "smoke" else (2,):
        spread_1D = jnp.linspace(0.4, 1.6, dim)[None]
        z_ND = spread_1D * jax.random.normal(jax.random.key(0), (500, dim))
        reference = float(sigreg(z_ND, sample_directions(jax.random.key(1), dim, 2**15)))
        for count in (16, 64, 256, 1024) if scale != "smoke" else (16, 64):
            for sampler in ("gaussian", "sobol"):
                found = _estimates(z_ND, count, sampler, repeats)
                rows.append(
                    {
                        "appendix": "D",
                        "dim": dim,
                        "slices": count,
                        "sampler": sampler,
                        "error": float(np.sqrt(np.mean((found / reference - 1) ** 2))),
                    }
                )
    return rows


def _estimates(z_ND: jax.Array, count: int, sampler: str, repeats: int) -> np.ndarray:
    def one(key: jax.Array) -> jax.Array:
        return sigreg(z_ND, sample_directions(key, z_ND.shape[1], count, sampler=sampler))

    keys = jax.random.split(jax.random.key(2), repeats)
    return np.asarray(jax.jit(partial(jax.lax.map, one))(keys))


def level_and_power(scale: str) -> Rows:
    """Rates at which the largest and the mean statistic exceed 95 % of the null's."""
    rows = []
    for name, statistic in TESTS.items():
        for num in SIZES[scale]:
            rows += _rejections(
                name, statistic, num, DIM, DRAWS[scale], tuple(ALTERNATIVES.items())
            )
    return rows


def power_by_dimension(scale: str) -> Rows:
    """Power against an X among more and more Gaussian coordinates, at a fixed number of slices."""
    rows, num = [], SIZES[scale][-1] // 2
    for dim in DIMS[scale]:
        alternatives = (
            ("null", partial(lambda dim, key, num: jax.random.normal(key, (num, dim)), dim)),
            ("X", partial(lambda dim, key, num: x_distribution(key, num, dim), dim)),
        )
        draws = max(DRAWS[scale] // 4, 20)
        rows += _rejections("Epps-Pulley", epps_pulley, num, dim, draws, alternatives)
    return [{**row, "by": "dimension"} for row in rows]


def _rejections(
    name: str,
    statistic: Statistic,
    num: int,
    dim: int,
    draws: int,
    alternatives: tuple[tuple[str, theory.Sampler], ...],
) -> Rows:
    """One row for each alternative. The first is the null; other draws of it set the threshold."""
    null = alternatives[0][1]
    found = theory.simulate(
        jax.random.key(0),
        statistic=statistic,
        samplers=(
            lambda key, num: null(jax.random.fold_in(key, 7), num),
            *(make for _, make in alternatives),
        ),
        num=num,
        dim=dim,
        num_slices=SLICES,
        draws=draws,
    )
    scores = [np.asarray(by_sampler) for by_sampler in found]
    rates = [(s[1:] > np.quantile(s[0], 1 - LEVEL)).mean(axis=1) for s in scores]
    return [
        {
            "theorem": 2,
            "test": name,
            "alternative": alternative,
            "samples": num,
            "dim": dim,
            "power": float(rates[0][k]),
            "power_of_mean": float(rates[1][k]),
        }
        for k, (alternative, _) in enumerate(alternatives)
    ]


def matched_moments(scale: str) -> Rows:
    """Distributions on few points that have the Gaussian's first moments, before and after descent.

    Descent starts there with a little noise, so that no two samples are equal.
    """
    steps = 20 if scale == "smoke" else 500
    directions = jnp.ones((1, 1))
    rows = []
    for nodes in (2, 3, 4, 5, 6):
        u_N = theory.sample_of(*theory.few_points(nodes), MATCHED)
        noise = 0.01 * np.random.default_rng(0).normal(size=u_N.size)
        start_N1 = jnp.asarray(u_N + noise, jnp.float32)[:, None]
        row = {"theorem": 3, "matched": 2 * nodes - 1}
        for name, statistic in (
            ("epps_pulley", epps_pulley),
            ("moments", univariate.moments),
            ("jarque_bera", univariate.extended_jarque_bera),
        ):
            row[name] = float(sigreg(start_N1, directions, statistic=statistic))
            end_N1, _ = descend(
                start_N1,
                jax.random.key(0),
                statistic=statistic,
                steps=steps,
                num_slices=1,
                learning_rate=0.01,
            )
            row[f"epps_pulley_after_{name}"] = float(sigreg(end_N1, directions))
        rows.append(row)
    return rows
