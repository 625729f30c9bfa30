"""Rows of `lejepa_probes` on probes of embeddings, without a verdict.

Shape key: N samples, D features, T targets, Q queries, R repetitions.
"""

import functools

import numpy as np

from experiments.findings import Rows
from experiments.lejepa.probes import theory
from experiments.lejepa.probes.theory import Density

VARIANCES = {"isotropic": (1.0, 1.0), "anisotropic": (1.9, 0.1)}
NOISE = 0.5  # standard deviation of regression targets around w . z
RIDGES = tuple(10.0 ** np.arange(-1, 4.5, 0.5))
SIZES = (50, 200, 1000)
REPEATS = {"smoke": 10, "cpu": 300, "gpu": 2000, "paper": 2000}
QUERIES = {"smoke": 200, "cpu": 4000, "gpu": 20_000, "paper": 20_000}
RADII = (0.05, 0.1, 0.2, 0.4, 0.8)
DENSITIES: dict[str, Density] = {
    "isotropic Gaussian": theory.gaussian(1.0, 1.0),
    "Gaussian 1.5 : 0.5": theory.gaussian(1.5, 0.5),
    "Gaussian 1.9 : 0.1": theory.gaussian(1.9, 0.1),
    "Student, 6 degrees": theory.student(),
    "Laplace": theory.laplace(),
    "two clusters": theory.two_clusters(),
    "uniform disk": theory.disk(),
}
DIM, TRAIN, TEST = 8, 500, 1000  # of the comparison of probes
DECAYS = (0.0, 1.0, 2.0)  # variances fall like j^-decay


def sample(rng: np.random.Generator, kind: str, num: int) -> np.ndarray:
    """Gaussian embeddings in the plane, f64[N, 2]."""
    return rng.normal(size=(num, 2)) * np.sqrt(VARIANCES[kind])


def linear_probes(repeats: int) -> tuple[Rows, dict[str, dict[str, np.ndarray]]]:
    """Bias, variance, cosine and accuracy over training sets; and estimates of three tasks."""
    rows = [_logistic_row(kind, repeats) for kind in VARIANCES]
    for kind in VARIANCES:
        rows += [_ridge_row(kind, n, s, repeats) for n in SIZES for s in RIDGES]
        rows.append(_ols_row(kind, repeats))
    tasks = {
        name: {kind: _task_estimates(kind, name, repeats) for kind in VARIANCES}
        for name in ("classification", "linear regression", "smooth regression")
    }
    return rows, tasks


def _ridge_row(kind: str, num: int, strength: float, repeats: int) -> dict[str, float | str | int]:
    """Mean over training sets of ridge regression, on three tasks and on random ones.

    The columns of the targets are random unit vectors, the least and the most varied coordinate.
    """
    rng = np.random.default_rng(0)  # the same noise for every strength and kind
    cosine, accuracy, mean_2T = [], [], 0.0
    angle_T = rng.uniform(0, 2 * np.pi, 16)
    w_2T = np.concatenate([[np.cos(angle_T), np.sin(angle_T)], [[0.0, 1.0], [1.0, 0.0]]], axis=1)
    for _ in range(repeats):
        z_N2, test_N2 = sample(rng, kind, num), sample(rng, kind, 500)
        noise_NT = NOISE * rng.normal(size=(num, w_2T.shape[1]))
        found_2T = theory.ridge(z_N2, z_N2 @ w_2T + noise_NT, strength)
        signs_2T = theory.ridge(z_N2, np.sign(z_N2 @ w_2T + noise_NT), strength)
        mean_2T = mean_2T + found_2T / repeats
        norms_T = np.linalg.norm(found_2T, axis=0)
        cosine.append(((found_2T * w_2T).sum(0) / norms_T)[:16].mean())
        accuracy.append((np.sign(test_N2 @ signs_2T) == np.sign(test_N2 @ w_2T))[:, :16].mean())
    bias_T = np.linalg.norm(mean_2T - w_2T, axis=0)
    return {
        "probe": "ridge",
        "kind": kind,
        "samples": num,
        "ridge": strength,
        "cosine": float(np.mean(cosine)),
        "accuracy": float(np.mean(accuracy)),
        "bias": float(np.sqrt((bias_T[:16] ** 2).mean())),
        "bias_least": float(bias_T[16]),
        "bias_most": float(bias_T[17]),
    }


def _ols_row(kind: str, repeats: int, num: int = 100) -> dict[str, float | str]:
    """Total variance of least squares, as predicted for fixed X, and its excess risk."""
    rng = np.random.default_rng(1)
    w_2, found, predicted = np.array([1.0, 1.0]), [], []
    for _ in range(4 * repeats):
        z_N2 = sample(rng, kind, num)
        found.append(theory.ridge(z_N2, z_N2 @ w_2 + NOISE * rng.normal(size=num), 0.0))
        predicted.append(NOISE**2 * np.trace(np.linalg.inv(z_N2.T @ z_N2)))
    error_R2 = np.array(found) - w_2[None]
    return {
        "probe": "least squares",
        "kind": kind,
        "variance": float(np.var(found, axis=0).sum()),
        "predicted_variance": float(np.mean(predicted)),
        "excess_risk": float((error_R2**2 @ np.array(VARIANCES[kind])).mean()),
    }


def _logistic_row(kind: str, repeats: int) -> dict[str, object]:
    """Spread of logistic regression's decision boundaries over training sets of 100 (figure 3)."""
    rng = np.random.default_rng(2)
    w_2 = np.array([2.0, 2.0])
    lines, accuracy = [], []
    for _ in range(repeats):
        z_N2 = sample(rng, kind, 100)
        label_N = (rng.random(100) < 1 / (1 + np.exp(-z_N2 @ w_2))).astype(float)
        lines.append(theory.logistic(z_N2, label_N))
        test_N2 = sample(rng, kind, 500)
        same = (test_N2 @ lines[-1][:2] + lines[-1][2] > 0) == (test_N2 @ w_2 > 0)
        accuracy.append(same.mean())
    line_R3 = np.array(lines)
    turn_R = np.arctan2(line_R3[:, 1], line_R3[:, 0]) - np.pi / 4
    return {
        "probe": "logistic",
        "kind": kind,
        "angle_spread": float(np.degrees(np.std((turn_R + np.pi) % (2 * np.pi)))),
        "variance": float(line_R3[:, :2].var(axis=0).sum()),
        "accuracy": float(np.mean(accuracy)),
        "lines": line_R3,
    }


def _task_estimates(kind: str, task: str, repeats: int, num: int = 100) -> np.ndarray:
    """Least-squares parameters of a task over training sets (figure 17): f64[R, 2]."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(repeats):
        z_N2 = sample(rng, kind, num)
        signal_N = z_N2 @ np.array([1.0, 1.0])
        noise_N = NOISE * rng.normal(size=num)
        y_N = {
            "classification": np.sign(signal_N),
            "linear regression": signal_N + noise_N,
            "smooth regression": np.sin(signal_N) + noise_N,
        }[task]
        found.append(theory.ridge(z_N2, y_N, 0.0))
    return np.array(found)


def local_bias(queries: int) -> Rows:
    """Integrated squared bias of neighbours within a radius, and of a Gaussian kernel."""
    nodes = {"neighbours": theory.ball_nodes(), "kernel": theory.gaussian_nodes()}
    rows: Rows = []
    for probe, points in nodes.items():
        for name, density in DENSITIES.items():
            for radius in RADII:
                bias = theory.integrated_bias(density, points, radius, queries, seed=0)
                scale = radius**4 / (16.0 if probe == "neighbours" else 1.0)  # (d + 2)^2, d = 2
                rows.append(
                    {
                        "probe": probe,
                        "density": name,
                        "radius": radius,
                        "bias": bias,
                        "bias_over_leading": bias / (scale * density.fisher),
                        "fisher": density.fisher,
                    }
                )
    return rows


def probes_at_work(repeats: int) -> Rows:
    """Test R² in eight dimensions, at equal total variance, on two kinds of targets.

    "intrinsic": targets are functions of what both embeddings are linear images of, as in section
    3.1. "embedding": targets are functions of the embedding, with isotropic gradients there, as
    the theorems on local averages assume.
    """
    rng = np.random.default_rng(4)
    probes = {
        "ridge": functools.partial(_predict_linear, strength=100.0),
        "10 neighbours": functools.partial(theory.nearest, k=10),
        "kernel": functools.partial(theory.smoothed, width=1.0),
    }
    scores: dict[tuple[str, str, str, float], list[float]] = {}
    for _ in range(repeats):
        s_ND = rng.normal(size=(TRAIN + TEST, DIM))
        noise_NT = 0.3 * rng.normal(size=(TRAIN, 8))
        direction_DT = rng.normal(size=(DIM, 8)) / DIM**0.5
        phase_1T = rng.uniform(0, 2 * np.pi, (1, 8))
        for decay in DECAYS:
            variance_D = np.arange(1.0, DIM + 1) ** -decay
            z_ND = s_ND * np.sqrt(variance_D * DIM / variance_D.sum())
            for kind, source_ND in (("intrinsic", s_ND), ("embedding", z_ND)):
                signal_NT = source_ND @ direction_DT
                targets = {"linear": signal_NT, "smooth": np.sin(2 * signal_NT + phase_1T)}
                for task, y_NT in targets.items():
                    for probe, predict in probes.items():
                        guess = predict(z_ND[:TRAIN], y_NT[:TRAIN] + noise_NT, z_ND[TRAIN:])
                        error = ((guess - y_NT[TRAIN:]) ** 2).sum(0)
                        total = ((y_NT[TRAIN:] - y_NT[TRAIN:].mean(0)) ** 2).sum(0)
                        key = (kind, task, probe, decay)
                        scores.setdefault(key, []).append(float((1 - error / total).mean()))
    names = ("targets", "task", "probe", "decay")
    return [
        {**dict(zip(names, key)), "r2": float(np.mean(v)), "std": float(np.std(v))}
        for key, v in scores.items()
    ]


def _predict_linear(
    z_ND: np.ndarray, y_NT: np.ndarray, query_QD: np.ndarray, strength: float
) -> np.ndarray:
    mean_1T = y_NT.mean(axis=0, keepdims=True)
    return query_QD @ theory.ridge(z_ND, y_NT - mean_1T, strength) + mean_1T
