"""Two agents who never met: W between their latents must be Q2 Q1^T (theorems 1 and 3 joined).

Agents see one latent process through mixings of their own and are trained alone. Each recovers the
latents up to an orthogonal Q_k with error B_k, so the map between their latents is Q2 Q1^T with an
error of at most (sqrt(B1) + sqrt(B2))^2. Where only some latents are shared and each agent has
private ones besides, R2 falls to the shared share. The agents' training does not depend on what is
shared, so one set of agents serves all shares.

Cost at --scale=cpu: about a minute on one core.
"""

import dataclasses
import itertools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from experiments import findings, id_runs
from experiments.findings import Claim, Finding, Picture
from experiments.id_runs import BUDGETS, PRESET, Run
from socialjepa_jax import alignment
from socialjepa_jax.data.latents import LatentWorld
from socialjepa_jax.identifiability import metrics
from socialjepa_jax.identifiability.mixings import Mixing, RealNVP, Spiral
from socialjepa_jax.identifiability.processes import OrnsteinUhlenbeck
from socialjepa_jax.models.coupling import CouplingConfig
from socialjepa_jax.report import style

RHO = 0.95
DIM = 8
AGENTS = {"smoke": 2, "cpu": 4, "gpu": 8, "paper": 8}
WORLDS: dict[str, tuple[Mixing, float]] = {  # mixing and lambda
    "spiral, MLP": (Spiral(), 1e-3),
    "RealNVP, matched": (RealNVP(CouplingConfig(DIM, 4)), 1e-6),
}


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains the agents of each world, and aligns all pairs at every number of private latents."""
    budget = dataclasses.replace(BUDGETS[scale], seeds=AGENTS[scale])
    rows: findings.Rows = []
    example: dict[str, np.ndarray] = {}
    for name, (mixing, weight) in WORLDS.items():
        process = OrnsteinUhlenbeck(mixing.dim)
        world = LatentWorld(process, mixing, PRESET.noised)
        runs = [Run(process.params(RHO), RHO, seed, weight) for seed in range(budget.seeds)]
        objective = id_runs.learner(budget, mixing=mixing, inputs=mixing.dim)
        agents = id_runs.study(world, objective, runs, budget)
        weights = [mixing.init(jax.random.key(seed)) for seed in range(budget.seeds)]
        rng = np.random.default_rng(11)
        for private in range(mixing.dim):
            shared = rng.standard_normal((2 * budget.points, mixing.dim))
            seen = []
            for agent, params in zip(agents, weights):
                z = shared.copy()
                if private:
                    z[:, -private:] = rng.standard_normal((len(z), private))
                x = np.asarray(mixing.forward(params, jnp.asarray(z, jnp.float32)))
                seen.append((z, agent.encode(x)))
            for i, j in itertools.combinations(range(budget.seeds), 2):
                row, w, rotation = _pair(seen[i], seen[j])
                rows.append(
                    {"world": name, "i": i, "j": j, "private": private, "N": mixing.dim, **row}
                )
                if not private and not example.get(name + "W", np.empty(0)).size:
                    example |= {name + "W": w, name + "Q": rotation}
    return Finding(
        "Two agents, one world, one orthogonal matrix",
        _claims(rows),
        {"": Picture(_figure(rows, example), _ALT, _CAPTION)},
        rows,
        settings=id_runs.settings(budget, rho=RHO),
    )


_ALT = "The fitted map beside the predicted rotation; error against its bound; R² against sharing"
_CAPTION = (
    "Left and middle: W fitted on held-out pairs, and Q2 Q1ᵀ from each agent's own recovery of the "
    "latents. Right: the error of Q2 Q1ᵀ against (√B1 + √B2)², and R² as private latents replace "
    "shared ones, with the predicted share."
)


def _pair(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]
) -> tuple[dict[str, float], np.ndarray, np.ndarray]:
    """One pair of agents: its row, W and the predicted rotation."""
    (z1, h1), (z2, h2) = first, second
    half = len(z1) // 2
    fitted = alignment.fit(h1[:half], h2[:half], method="lstsq", standardize="center")
    b1, q1 = metrics.orthogonal_recovery(z1, h1, center=True)
    b2, q2 = metrics.orthogonal_recovery(z2, h2, center=True)
    rotation = q2 @ q1.T
    centred = [h - h.mean(0) for h in (h1, h2)]
    error = float(np.square(centred[1] - centred[0] @ rotation.T).sum(1).mean())
    row = {
        "r2": float(metrics.r2(h1[:half], h2[:half], held_out=(h1[half:], h2[half:]))),
        "error": error,
        "bound": (b1**0.5 + b2**0.5) ** 2,
        "b1": b1,
        "b2": b2,
        "distance": float(np.linalg.norm(fitted.w - rotation) / np.linalg.norm(rotation)),
        "orthogonality": metrics.orthogonality_error(fitted.w),
    }
    return row, fitted.w, rotation


@style.styled
def _figure(rows: findings.Rows, example: dict[str, np.ndarray]) -> Figure:
    figure = Figure(figsize=(9.6, 5.4), layout="constrained")
    grid = figure.subplots(2, 3)
    for k, name in enumerate(WORLDS):
        for axes, key, title in zip(grid[k], "WQ", ("fitted W", "predicted Q2 Q1ᵀ")):
            axes.imshow(example[name + key], vmin=-1, vmax=1, cmap="RdBu")
            axes.set_title(f"{title}  ({name})", fontsize=9)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(visible=False)
    error, falling = grid[0][2], grid[1][2]
    for k, name in enumerate(WORLDS):
        some = findings.select(rows, world=name, private=0)
        error.scatter(
            [r["bound"] for r in some],
            [r["error"] for r in some],
            s=18,
            color=style.agent_color(k),
            label=name,
        )
        every = findings.select(rows, world=name)
        privates = findings.distinct(every, "private")
        share = [1.0 - p / every[0]["N"] for p in privates]
        mean = [findings.mean(every, "r2", private=p) for p in privates]
        falling.plot(share, mean, "o", color=style.agent_color(k), label=name)
    low, high = error.get_xlim()
    error.plot([max(low, 1e-6), high], [max(low, 1e-6), high], color="#1d2430", lw=1, ls="--")
    error.set(xscale="log", yscale="log", title="error under its bound")
    style.plain_log(error.xaxis)
    style.plain_log(error.yaxis)
    error.set(xlabel="(√B1 + √B2)²", ylabel="E‖h2 - Q2 Q1ᵀ h1‖²")
    falling.plot([0, 1], [0, 1], color="#1d2430", lw=1, ls="--", label="predicted")
    falling.set(xlabel="share of latents that both see", ylabel="R² of W, held out")
    falling.set_title("private latents are not shared")
    falling.legend(fontsize=7)
    return figure


def _claims(rows: findings.Rows) -> list[Claim]:
    claims = []
    for name in WORLDS:
        some = findings.select(rows, world=name, private=0)
        every = findings.select(rows, world=name)
        ratio = max(r["error"] / r["bound"] for r in some)
        r2 = findings.mean(some, "r2")
        off = float(np.mean([abs(r["r2"] - (1 - r["private"] / r["N"])) for r in every]))
        claims += [
            Claim(
                f"{name}/r2",
                "1: one world, one linear map",
                r2,
                r2 > 0.9,
                f"{'agrees' if r2 > 0.9 else 'differs'}: held-out R² of W between agents "
                f"that never met is {r2:.4f}.",
                findings.spread(some, "r2"),
            ),
            Claim(
                f"{name}/largest error over bound",
                "at most 1: ‖h2 - Q2 Q1ᵀ h1‖ ≤ √B1 + √B2",
                ratio,
                ratio <= 1.0,
                f"{'agrees' if ratio <= 1 else 'differs'}: over {len(some)} pairs of agents.",
            ),
            Claim(
                f"{name}/relative distance of W from Q2 Q1ᵀ",
                "0 as both errors vanish",
                findings.mean(some, "distance"),
                findings.mean(some, "distance") < 0.2,
                f"W's orthogonality error is {findings.mean(some, 'orthogonality'):.3f}.",
            ),
            Claim(
                f"{name}/R² minus the shared share",
                "0: private latents are noise to the other",
                off,
                off < 0.05,
                f"{'agrees' if off < 0.05 else 'differs'}: mean absolute difference over all "
                "numbers of private latents.",
            ),
        ]
    return claims
