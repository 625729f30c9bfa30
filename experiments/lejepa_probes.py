"""Isotropic against anisotropic embeddings for linear, neighbour and kernel probes.

LeJEPA, section 3 and appendices A and B: lemmas 1 and 2, theorems 1, 7 and 8, figures 3, 17 and 18.
Embeddings of equal total variance in the plane: bias and variance of (regularised) least squares
and of logistic regression over many training sets; integrated squared bias of local averages for
targets with isotropic gradients, by quadrature; and test R² of all probes in eight dimensions.

Command: python -m experiments.reproduce --only=lejepa_probes --out=runs/sigreg
Cost at --scale=cpu: about half a minute on one core.
Expected: all lemmas and the leading terms of the theorems hold. What the paper leaves out:
parameters that vary more need not predict worse; at finite radius others than the isotropic
Gaussian have less bias (a uniform disk, and for kernels anisotropic Gaussians); and a fixed number
of neighbours does better where fewer directions vary, if targets are smooth in the embedding.
"""

import functools
import pathlib

import numpy as np

from experiments import findings, probes_theory
from experiments.findings import Claim, Finding, Picture, Rows
from experiments.lejepa_figures import Panel, boundaries, estimates, line_panels
from experiments.probes_theory import Density
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Row, Table

VARIANCES = {"isotropic": (1.0, 1.0), "anisotropic": (1.9, 0.1)}
NOISE = 0.5  # standard deviation of regression targets around w . z
RIDGES = tuple(10.0 ** np.arange(-1, 4.5, 0.5))
SIZES = (50, 200, 1000)
REPEATS = {"smoke": 10, "cpu": 300, "gpu": 2000, "paper": 2000}
QUERIES = {"smoke": 200, "cpu": 4000, "gpu": 20_000, "paper": 20_000}
RADII = (0.05, 0.1, 0.2, 0.4, 0.8)
DENSITIES: dict[str, Density] = {
    "isotropic Gaussian": probes_theory.gaussian(1.0, 1.0),
    "Gaussian 1.5 : 0.5": probes_theory.gaussian(1.5, 0.5),
    "Gaussian 1.9 : 0.1": probes_theory.gaussian(1.9, 0.1),
    "Student, 6 degrees": probes_theory.student(),
    "Laplace": probes_theory.laplace(),
    "two clusters": probes_theory.two_clusters(),
    "uniform disk": probes_theory.disk(),
}
DIM, TRAIN, TEST = 8, 500, 1000  # of the comparison of probes
DECAYS = (0.0, 1.0, 2.0)  # variances fall like j^-decay


def run(scale: str, out: pathlib.Path) -> Finding:
    """Linear probes, local averages, and all probes at work."""
    linear, tasks = linear_probes(REPEATS[scale])
    bias, work = local_bias(QUERIES[scale]), probes_at_work(max(2, REPEATS[scale] // 15))
    return Finding(
        "Isotropic Gaussian embeddings serve probes best",
        [*_linear_claims(linear), *_bias_claims(bias), *_work_claims(work)],
        {
            "": _boundaries(linear),
            "estimates": _estimates(tasks),
            "ridge": _ridge_picture(linear),
            "bias": _bias_picture(bias),
        },
        [*({k: v for k, v in r.items() if k != "lines"} for r in linear), *bias, *work],
        [_work_table(work)],
        {"repeats": REPEATS[scale], "queries": QUERIES[scale]},
    )


def _sample(rng: np.random.Generator, kind: str, num: int) -> np.ndarray:
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
        z_N2, test_N2 = _sample(rng, kind, num), _sample(rng, kind, 500)
        noise_NT = NOISE * rng.normal(size=(num, w_2T.shape[1]))
        found_2T = probes_theory.ridge(z_N2, z_N2 @ w_2T + noise_NT, strength)
        signs_2T = probes_theory.ridge(z_N2, np.sign(z_N2 @ w_2T + noise_NT), strength)
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
        z_N2 = _sample(rng, kind, num)
        found.append(probes_theory.ridge(z_N2, z_N2 @ w_2 + NOISE * rng.normal(size=num), 0.0))
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
        z_N2 = _sample(rng, kind, 100)
        label_N = (rng.random(100) < 1 / (1 + np.exp(-z_N2 @ w_2))).astype(float)
        lines.append(probes_theory.logistic(z_N2, label_N))
        test_N2 = _sample(rng, kind, 500)
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
        z_N2 = _sample(rng, kind, num)
        signal_N = z_N2 @ np.array([1.0, 1.0])
        noise_N = NOISE * rng.normal(size=num)
        y_N = {
            "classification": np.sign(signal_N),
            "linear regression": signal_N + noise_N,
            "smooth regression": np.sin(signal_N) + noise_N,
        }[task]
        found.append(probes_theory.ridge(z_N2, y_N, 0.0))
    return np.array(found)


def local_bias(queries: int) -> Rows:
    """Integrated squared bias of neighbours within a radius, and of a Gaussian kernel."""
    nodes = {"neighbours": probes_theory.ball_nodes(), "kernel": probes_theory.gaussian_nodes()}
    rows: Rows = []
    for probe, points in nodes.items():
        for name, density in DENSITIES.items():
            for radius in RADII:
                bias = probes_theory.integrated_bias(density, points, radius, queries, seed=0)
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
        "10 neighbours": functools.partial(probes_theory.nearest, k=10),
        "kernel": functools.partial(probes_theory.smoothed, width=1.0),
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
    return query_QD @ probes_theory.ridge(z_ND, y_NT - mean_1T, strength) + mean_1T


def _verdict(good: bool) -> str:
    return "agrees" if good else "differs"


def _linear_claims(rows: Rows) -> list[Claim]:
    largest = findings.select(rows, probe="ridge", samples=SIZES[-1])
    iso, aniso = (findings.select(largest, kind=kind) for kind in VARIANCES)
    ratio = min(a["bias_least"] / i["bias_least"] for i, a in zip(iso, aniso) if i["ridge"] >= 10)
    other = min(a["bias_most"] / i["bias_most"] for i, a in zip(iso, aniso) if i["ridge"] >= 10)
    mean = min(a["bias"] / i["bias"] for i, a in zip(iso, aniso) if i["ridge"] >= 10)
    cosine = {
        kind: min(r["cosine"] for r in findings.select(largest, kind=kind)) for kind in VARIANCES
    }
    ols = {r["kind"]: r for r in findings.select(rows, probe="least squares")}
    log = {r["kind"]: r for r in findings.select(rows, probe="logistic")}
    variance = ols["anisotropic"]["variance"] / ols["isotropic"]["variance"]
    theory = ols["anisotropic"]["predicted_variance"] / ols["isotropic"]["predicted_variance"]
    risk = ols["anisotropic"]["excess_risk"] / ols["isotropic"]["excess_risk"]
    spread = log["anisotropic"]["angle_spread"] / log["isotropic"]["angle_spread"]
    return [
        Claim(
            "lemma 1/least ratio of bias on the worst task",
            "some task has a larger bias whenever the ridge is positive",
            ratio,
            ratio > 1,
            f"{_verdict(ratio > 1)}: anisotropic over isotropic, over ridges of 10 and more; over "
            f"random tasks at least {mean:.2f}. On the best task it is {other:.2f}: anisotropy "
            "helps targets that lie along it.",
        ),
        Claim(
            "figure 18/least cosine, isotropic",
            1.0,
            cosine["isotropic"],
            cosine["isotropic"] > 0.99 > cosine["anisotropic"],
            f"{_verdict(cosine['isotropic'] > 0.99 > cosine['anisotropic'])}: over all ridges at "
            f"N = {SIZES[-1]}; anisotropic {cosine['anisotropic']:.3f}.",
        ),
        Claim(
            "lemma 2/ratio of total variances of least squares",
            theory,
            variance,
            abs(variance / theory - 1) < 0.1,
            f"{_verdict(abs(variance / theory - 1) < 0.1)}: the formula's ratio is {theory:.2f}.",
        ),
        Claim(
            "lemma 2/ratio of excess risks of least squares",
            "variance is what isotropy minimises",
            risk,
            risk > 1.1,
            f"{_verdict(risk > 1.1)}{'' if risk > 1.1 else ' for predictions'}: without a ridge "
            "predictions do not depend on the scale of coordinates; the parameters that vary more "
            "multiply coordinates that vary less.",
        ),
        Claim(
            "figure 3/ratio of the boundaries' angular spread",
            "anisotropic embeddings lead to a higher variance",
            spread,
            spread > 1,
            f"{_verdict(spread > 1)}: {log['anisotropic']['angle_spread']:.1f} against "
            f"{log['isotropic']['angle_spread']:.1f} degrees; accuracy "
            f"{log['anisotropic']['accuracy']:.3f} against {log['isotropic']['accuracy']:.3f}.",
        ),
        Claim(
            "figure 17/caption",
            "the anisotropic version provides much lower variance",
            variance,
            variance < 1,
            f"{_verdict(variance < 1)}: the caption contradicts lemma 2 and its own figure's "
            "purpose; its colours are probably named the wrong way round.",
        ),
    ]


def _bias_claims(rows: Rows) -> list[Claim]:
    claims = []
    for probe, theorem in (("neighbours", 7), ("kernel", 8)):
        near = findings.select(rows, probe=probe, radius=RADII[0])
        smooth = [r for r in near if r["density"] not in ("uniform disk", "Laplace")]
        off = max(abs(r["bias_over_leading"] - 1) for r in smooth)
        claims.append(
            Claim(
                f"theorem {theorem}/{probe}: bias over its leading term",
                1.0,
                float(np.mean([r["bias_over_leading"] for r in smooth])),
                off < 0.1,
                f"{_verdict(off < 0.1)}: at radius {RADII[0]:g}, smooth densities, at most "
                f"{off:.1%} off.",
            )
        )
        for radius in (RADII[0], RADII[-1]):
            found = {
                r["density"]: r["bias"] for r in findings.select(rows, probe=probe, radius=radius)
            }
            gaussian = found.pop("isotropic Gaussian")
            rival = min(found, key=found.__getitem__)
            ratio = found[rival] / gaussian
            others = {k: v for k, v in found.items() if k != "uniform disk"}
            second = min(others, key=others.__getitem__)
            claims.append(
                Claim(
                    f"theorem {theorem}/{probe}: best other density over Gaussian, "
                    f"radius {radius:g}",
                    "the isotropic Gaussian is the unique minimizer",
                    ratio,
                    ratio > 1,
                    f"{_verdict(ratio > 1)}: closest is the {rival} at {ratio:.2f} times its bias"
                    + (
                        f"; among smooth densities the {second} at {others[second] / gaussian:.2f}"
                        if rival == "uniform disk"
                        else ""
                    )
                    + ("." if ratio > 1 else "; the theorem is about the limit of small ones."),
                )
            )
    return claims


def _work_claims(rows: Rows) -> list[Claim]:
    claims = []
    for targets, paper in (
        ("intrinsic", "isotropy is better for every probe (sections 3.1-3.2)"),
        ("embedding", "isotropy is better under the theorems' assumption on targets"),
    ):
        some = findings.select(rows, targets=targets)
        gains = {
            (r["task"], r["probe"]): r["r2"]
            - findings.select(some, task=r["task"], probe=r["probe"], decay=DECAYS[-1])[0]["r2"]
            for r in findings.select(some, decay=DECAYS[0])
        }
        least = min(gains, key=gains.__getitem__)
        good = gains[least] > 0
        listed = ", ".join(f"{t} {p} {g:+.2f}" for (t, p), g in gains.items())
        claims.append(
            Claim(
                f"theorem 1/{targets} targets: least gain of R²",
                paper,
                gains[least],
                good,
                f"{_verdict(good)}: isotropic less variances that fall like j^-2: {listed}."
                + (
                    ""
                    if good
                    else " A fixed number of neighbours lies closer where fewer directions vary, "
                    "which the theorem's fixed radius leaves out."
                ),
            )
        )
    return claims


def _boundaries(rows: Rows) -> Picture:
    rng = np.random.default_rng(2)
    panels = {}
    for row in findings.select(rows, probe="logistic"):
        z_N2 = _sample(rng, row["kind"], 100)
        label_N = rng.random(100) < 1 / (1 + np.exp(-z_N2 @ np.array([2.0, 2.0])))
        panels[row["kind"]] = (z_N2, label_N, row["lines"][:100])
    figure = boundaries(panels, title="Logistic regression on 100 points, many times")
    caption = "Figure 3: each line is the decision boundary of another training set."
    return Picture(figure, "Decision boundaries on isotropic and anisotropic embeddings", caption)


def _estimates(tasks: dict[str, dict[str, np.ndarray]]) -> Picture:
    figure = estimates(tasks, title="Least squares, many training sets", axis_label="parameter")
    caption = "Figure 17. The caption there has the two the wrong way round."
    return Picture(figure, "Clouds of least-squares estimates for three tasks", caption)


def _ridge_picture(rows: Rows) -> Picture:
    panels = []
    for metric, name in (("accuracy", "accuracy"), ("cosine", "cosine to the true parameters")):
        curves = []
        for k, kind in enumerate(VARIANCES):
            for num, dash in zip(SIZES, ((0, (1, 1)), (0, (4, 2)), "-")):
                some = findings.select(rows, probe="ridge", kind=kind, samples=num)
                y = [r[metric] for r in some]
                label = f"{kind}, N={num}"
                curves.append(figures.Line(label, RIDGES, y, style.agent_color(k), dash))
        panels.append(Panel(name, curves))
    figure = line_panels(panels, x_label="ridge", y_label="mean over tasks", log_x=True)
    caption = "Figure 18: random linear tasks; only isotropic embeddings keep the direction."
    return Picture(figure, "Accuracy and cosine against the strength of the ridge", caption)


def _bias_picture(rows: Rows) -> Picture:
    panels = []
    for probe in ("neighbours", "kernel"):
        base = [r["bias"] for r in findings.select(rows, probe=probe, density="isotropic Gaussian")]
        curves = [
            figures.Line(
                name,
                RADII,
                [
                    r["bias"] / b
                    for r, b in zip(findings.select(rows, probe=probe, density=name), base)
                ],
                style.PALETTE[k],
                marker="o",
            )
            for k, name in enumerate(DENSITIES)
        ]
        panels.append(Panel(probe, curves))
    figure = line_panels(
        panels,
        x_label="radius or width",
        y_label="bias over the Gaussian's",
        log_x=True,
        log_y=True,
    )
    caption = "Theorems 7 and 8: integrated squared bias for linear targets, at equal trace."
    return Picture(figure, "Integrated squared bias of densities against the radius", caption)


def _work_table(rows: Rows) -> Table:
    columns = [Column(f"{d:g}", f"j^-{d:g}" if d else "isotropic", 3, "max") for d in DECAYS]
    body = []
    for key in dict.fromkeys((r["targets"], r["task"], r["probe"]) for r in rows):
        some = findings.select(rows, **dict(zip(("targets", "task", "probe"), key)))
        cells = {f"{r['decay']:g}": r["r2"] for r in some}
        best = max(cells, key=cells.__getitem__)
        body.append(Row(", ".join(key), cells, ranked=False, note=f"best: {best}"))
    caption = (
        f"Test R² in {DIM} dimensions, {TRAIN} training samples, variances falling like j^-decay "
        "at equal trace. Targets are functions of the intrinsic coordinates or of the embedding."
    )
    return Table(columns, body, corner="targets, task, probe", caption=caption)
