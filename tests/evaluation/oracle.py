"""The table of a run in plain float64 NumPy and SciPy, written from the definitions.

Nothing here calls the package: what is fitted, on which rows, and what it is applied to is
written out, so that a leak, a swap or a map in the wrong direction shows as another number.

Shape key: N rows, D and E features, C classes, F indicator columns.
"""

import dataclasses
import pathlib

import numpy as np
from scipy import linalg, stats
from scipy.spatial.distance import cdist, pdist

BACKS = ("inverse", "none", "forward", "regression")


@dataclasses.dataclass(frozen=True)
class Agent:
    """What a file of latents holds, with latents as float64."""

    z: np.ndarray
    labels: np.ndarray
    factors: dict[str, np.ndarray]
    flags: dict[str, np.ndarray]  # split -> 0 train, 1 test

    @staticmethod
    def read(path: pathlib.Path) -> "Agent":
        with np.load(path) as saved:
            names = [str(name) for name in saved["factor_names"]]
            return Agent(
                saved["latents"].astype(np.float64),
                saved["labels"],
                {name: saved["factors"][:, i] for i, name in enumerate(names)},
                {name: saved[f"split_{name}"] for name in ("instance", "state")},
            )

    def rows(self, split):
        return tuple(np.flatnonzero(self.flags[split] == part) for part in (0, 1))

    def shared_factors(self):
        """Indicators of every factor but the object, and of their joint cells."""
        columns = [levels for name, levels in self.factors.items() if name != "instance"]
        joint = [" ".join(map(str, cell)) for cell in zip(*columns)]
        return np.concatenate([indicators(levels) for levels in (*columns, joint)], axis=1)


def indicators(levels):
    levels = np.asarray(levels)
    return np.stack([levels == level for level in np.unique(levels)], axis=1).astype(np.float64)


@dataclasses.dataclass(frozen=True)
class Standard:
    """Mean and population standard deviation of training rows; constant features keep scale 1."""

    mean: np.ndarray
    scale: np.ndarray

    @staticmethod
    def of(z):
        scale = np.sqrt(np.mean((z - z.mean(axis=0)) ** 2, axis=0))
        return Standard(z.mean(axis=0), np.where(scale > 0, scale, 1.0))

    def __call__(self, z):
        return (z - self.mean) / self.scale


def ridge(x, y, lam):
    """B [D, E] of the least |Y - X B|^2 + lam |B|^2, by least squares on stacked rows."""
    stacked = np.concatenate([x, np.sqrt(lam) * np.eye(x.shape[1])])
    target = np.concatenate([y, np.zeros((x.shape[1], y.shape[1]))])
    return linalg.lstsq(stacked, target)[0]


def solve(x, y, how):
    """B [D, E] with y ~ x B by the method of a configuration."""
    if how.method == "procrustes":
        u, _, vt = linalg.svd(x.T @ y, full_matrices=False)
        return u @ vt
    return ridge(x, y, how.ridge if how.method == "ridge" else 0.0)


def probe(z, labels, classes, lam):
    """Linear classifier: ridge regression of one-hot labels on standardised latents."""
    standard, target = Standard.of(z), np.eye(classes)[labels]
    shares = target.mean(axis=0)
    weight = ridge(standard(z), target - shares, lam)
    return lambda raw: standard(raw) @ weight + shares


def accuracy(logits, labels):
    return np.mean(np.argmax(logits, axis=1) == labels)


def pooled_r2(error, target):
    return 1 - np.sum(error**2) / np.sum((target - target.mean(axis=0)) ** 2)


def effective_rank(values):
    share = values[values > 1e-12 * values.max()] / values.sum()
    return np.exp(-np.sum(share * np.log(share)))


def collapse(z):
    centred = z - z.mean(axis=0)
    return {
        "feature_std": np.mean(np.sqrt(np.mean(centred**2, axis=0))),
        "latent_norm": np.mean(np.sqrt(np.sum(z**2, axis=1))),
        "rankme": effective_rank(linalg.svdvals(centred)),
    }


def overlap(a, b, k):
    """Mean share of common k nearest other rows; the latents have no ties."""
    nearest = []
    for z in (a, b):
        gaps = cdist(z, z)
        np.fill_diagonal(gaps, np.inf)
        nearest.append(np.argsort(gaps, axis=1)[:, :k])
    return np.mean([len(set(p) & set(q)) / k for p, q in zip(*nearest)])


def _debiased_hsic(k, l):
    n = len(k)
    k, l = (m - np.diag(np.diag(m)) for m in (k, l))
    total = np.trace(k @ l) + k.sum() * l.sum() / ((n - 1) * (n - 2))
    return (total - 2 * k.sum(axis=0) @ l.sum(axis=1) / (n - 2)) / (n * (n - 3))


def geometry(a, b, neighbors):
    """Metrics of two sets of points in one space."""
    p, q = (z - z.mean(axis=0) for z in (a, b))
    k, l = p @ p.T, q @ q.T
    cross, first, second = (_debiased_hsic(*pair) for pair in ((k, l), (k, k), (l, l)))
    nos = {n: 1 - overlap(a, b, n) for n in neighbors}
    return {
        "dsc": stats.spearmanr(pdist(a), pdist(b)).statistic,
        "cka": np.sum(k * l) / np.sqrt(np.sum(k * k) * np.sum(l * l)),
        "cka_debiased": cross / np.sqrt(first * second),
        **{f"nos@{n}": value for n, value in nos.items()},
        **{f"nos_expected@{n}": value for n, value in nos.items()},  # no ties to be broken
    }


def shared_dimensions(residual, target, train_y):
    """Sum over the principal components of the training y of their held-out R2, if above 0."""
    _, _, axes = linalg.svd(train_y, full_matrices=True)
    error = np.sum((residual @ axes.T) ** 2, axis=0)
    seen = target @ axes.T
    total = np.sum((seen - seen.mean(axis=0)) ** 2, axis=0)
    return np.sum(np.maximum(0, 1 - error / total))


def measure(how, x, y, labels, classes, train, test, backs):
    """Returns back -> every metric of x -> y, fitted on the rows `train`, measured on `test`."""
    x, y = (np.asarray(z, np.float64) for z in (x, y))
    standards = Standard.of(x[train]), Standard.of(y[train])
    (fit_x, held_x), (fit_y, held_y) = (
        (standard(z[train]), standard(z[test])) for standard, z in zip(standards, (x, y))
    )
    forward, back = solve(fit_x, fit_y, how), solve(fit_y, fit_x, how)  # y ~ x F and x ~ y B
    u, s, vt = linalg.svd(forward, full_matrices=False)
    kept = s > s[0] / how.kappa_max
    inverse = (vt[kept].T / s[kept]) @ u[:, kept].T  # x ~ y I
    residual = held_y - held_x @ forward
    spread = held_y - held_y.mean(axis=0)
    own, source = (probe(z[train], labels[train], classes, how.probe_ridge) for z in (y, x))
    to_x = standards[0].scale, standards[0].mean
    logits = {
        "probe_own": own(y[test]),
        "probe_transferred": source(held_y @ inverse * to_x[0] + to_x[1]),
        "probe_regression": source(held_y @ back * to_x[0] + to_x[1]),
    }
    if x.shape[1] == y.shape[1]:
        logits["probe_raw"] = source(y[test])
    raw = standards[1].scale
    p, q = (z - z.mean(axis=0) for z in (held_x, held_y))
    nuclear = linalg.svdvals(p.T @ q).sum() / linalg.norm(p) / linalg.norm(q)
    width = x.shape[1]
    shared = {
        "mse": np.mean(residual**2),
        "mse_sum": np.mean(np.sum(residual**2, axis=1)),
        "mse_raw": np.mean((residual * raw) ** 2),
        "r2": pooled_r2(residual, held_y),
        "r2_uniform": np.mean(1 - np.sum(residual**2, axis=0) / np.sum(spread**2, axis=0)),
        "r2_raw": pooled_r2(residual * raw, held_y * raw),
        "procrustes_error": 2 - 2 * nuclear,
        "orthogonality": linalg.norm(forward @ forward.T - np.eye(width)) / np.sqrt(width),
        "kappa": s[0] / s[-1],
        "kappa_effective": s[0] / s[kept][-1],
        "rank": kept.sum(),
        "effective_rank": effective_rank(s),
        "n_train": len(train),
        "n_test": len(test),
        "rankme": collapse(y[test])["rankme"],
        "shared_dims": shared_dimensions(residual, held_y, fit_y),
        **{name: accuracy(values, labels[test]) for name, values in logits.items()},
    }
    spaces = {
        "inverse": (held_x, held_y @ inverse),
        "none": (held_x, held_y),
        "forward": (held_x @ forward, held_y),
        "regression": (held_x, held_y @ back),
    }
    neighbors = [k for k in how.neighbors if k < len(test)]
    return {name: shared | geometry(*spaces[name], neighbors) for name in backs}


def explained(features, z, train, lam):
    """What a ridge regression on features, fitted on the rows `train`, says of all latents."""
    centre, mean = features[train].mean(axis=0), z[train].mean(axis=0)
    weight = ridge(features[train] - centre, z[train] - mean, lam)
    return mean + (features - centre) @ weight


def shared_factors_row(features, y, train, test):
    """Held-out R2 of y as the shared factors alone predict it, one sample a feature as prior."""
    y = y.astype(np.float64)
    scale = Standard.of(y[train]).scale
    error = (y - explained(features, y, train, 1.0))[test] / scale
    return {
        "r2": pooled_r2(error, y[test] / scale),
        "n_train": len(train),
        "n_test": len(test),
    }
