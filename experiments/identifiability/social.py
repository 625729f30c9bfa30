"""Two agents who never met: W between their latents must be Q2 Q1^T (theorems 1 and 3 joined).

Agents see one latent process through mixings of their own and are trained alone. Each recovers the
latents up to an orthogonal Q_k with error B_k, so the map between their latents is Q2 Q1^T with an
error of at most (sqrt(B1) + sqrt(B2))^2. If only some latents are shared and each agent has private
ones besides, R2 falls to the shared share. The agents' training does not depend on what is shared,
so one set of agents serves all shares.

Command: python -m experiments.reproduce --only=id_social --out=runs/id
Cost at --scale=cpu: 1 minute on one core.
Expected at --scale=cpu: in the plane R2 of W .9988, W within .006 of Q2 Q1^T, and R2 within .002 of
the shared share. With RealNVP in 8 dimensions R2 .882, since only 1 of 6 pairs has recovered its
world (R2 1.0000). No error exceeds its bound (largest ratio .99).
"""

import itertools
import math
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from experiments import findings
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.identifiability import runs as runs_lib
from experiments.identifiability.runs import BUDGETS, PRESET, SweepRun
from socialjepa_jax import alignment
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability import metrics
from socialjepa_jax.identifiability.mixings import Mixing, Parabola, RealNVP, Sinusoid, Spiral
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.models.coupling import CouplingConfig
from socialjepa_jax.report import style

RHO = 0.95
DIM = 8
AGENTS = {"smoke": 2, "cpu": 4, "gpu": 8, "paper": 8}
# Mixings and lambda; agents are paired across mixings, or across the mixings' random weights.
WORLDS: dict[str, tuple[tuple[Mixing, ...], float]] = {
    "plane, MLP": ((Spiral(), Sinusoid(), Parabola()), 1e-3),
    "RealNVP, matched": ((RealNVP(CouplingConfig(DIM, 4)),), 1e-6),
}


@dataclass(frozen=True)
class Agent:
    """A trained agent: the mixing through which it sees latents, and its encoder."""

    mixing: Mixing
    weights: Any
    encode: Callable[[np.ndarray], np.ndarray]

    def perceive(self, z_ND: np.ndarray) -> np.ndarray:
        """h = f(g(z)): f64[N, D]."""
        return self.encode(
            np.asarray(self.mixing.forward(self.weights, jnp.asarray(z_ND, jnp.float32)))
        )


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains the agents of each world, and aligns all pairs at every number of private latents."""
    rows: Rows = []
    example: dict[str, np.ndarray] = {}
    for name, (mixings, weight) in WORLDS.items():
        agents = [a for m in mixings for a in _train(m, weight, scale, len(mixings))]
        dim = mixings[0].dim
        different = [
            (i, j)
            for i, j in itertools.combinations(range(len(agents)), 2)
            if len(mixings) == 1 or agents[i].mixing != agents[j].mixing
        ]
        rng = np.random.default_rng(11)
        for private in range(dim):
            seen = _encode(agents, dim, private, BUDGETS[scale].points, rng)
            for i, j in different:
                row, w, rotation = _pair(seen[i], seen[j])
                rows.append({"world": name, "i": i, "j": j, "private": private, "N": dim, **row})
                if not private and (i, j) == different[0]:
                    example |= {name + "W": w, name + "Q": rotation}
    return Finding(
        "Two agents, one world, one orthogonal matrix",
        _claims(rows),
        {"": Plot(_figure(rows, example), _ALT, _CAPTION)},
        rows,
        settings=runs_lib.settings(BUDGETS[scale], rho=RHO),
    )


def _train(mixing: Mixing, weight: float, scale: str, num_mixings: int) -> list[Agent]:
    """Agents of one kind of mixing, each with weights and a stream of its own."""
    num = AGENTS[scale] if num_mixings == 1 else max(1, AGENTS[scale] // 2)
    budget = replace(runs_lib.for_mixing(BUDGETS[scale], mixing), seeds=num)
    process = OrnsteinUhlenbeck(mixing.dim)
    world = LatentWorld(process, mixing, PRESET.noised)
    setting = SweepRun(process.params(RHO), RHO, weight)
    objective = runs_lib.learner(budget, mixing=mixing, inputs=mixing.dim)
    return [
        Agent(mixing, mixing.init(jax.random.key(run.row["seed"])), run.encode)
        for run in runs_lib.train(world, objective, [setting], budget)
    ]


def _encode(
    agents: Sequence[Agent], dim: int, private: int, points: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Latents and encodings of every agent; the last `private` latents are each agent's own."""
    shared = rng.standard_normal((2 * points, dim))
    seen = []
    for agent in agents:
        z = shared.copy()
        if private:
            z[:, -private:] = rng.standard_normal((len(z), private))
        seen.append((z, agent.perceive(z)))
    return seen


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
def _figure(rows: Rows, example: dict[str, np.ndarray]) -> Figure:
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
    error.set(xscale="log", yscale="log", title="error against its bound")
    style.plain_log(error.xaxis)
    style.plain_log(error.yaxis)
    error.set(xlabel="(√B1 + √B2)²", ylabel="E‖h2 - Q2 Q1ᵀ h1‖²")
    falling.plot([0, 1], [0, 1], color="#1d2430", lw=1, ls="--", label="predicted")
    falling.set(xlabel="share of latents that both see", ylabel="R² of W, held out")
    falling.set_title("R² of W and shared latents")
    falling.legend(fontsize=7)
    return figure


def _claims(rows: Rows) -> list[Claim]:
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
                f"held-out R² of W between agents that never met is {r2:.4f}.",
                findings.spread(some, "r2"),
                _converged(some),
            ),
            Claim(
                f"{name}/largest error over bound",
                "at most 1: ‖h2 - Q2 Q1ᵀ h1‖ ≤ √B1 + √B2",
                ratio,
                ratio <= 1.0,
                f"over {len(some)} pairs of agents.",
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
                "mean absolute difference over all numbers of private latents.",
                because=_converged(some),
            ),
        ]
    return claims


def _converged(rows: Rows) -> str:
    """Mean R² of the pairs whose agents have both recovered the world, by their own bounds."""
    good = [row["r2"] for row in rows if max(row["b1"], row["b2"]) < 0.1]
    return (
        f"some encoders have not recovered their own world; the {len(good)} of {len(rows)} pairs "
        f"in which both have (bounds below 0.1) reach R² {np.mean(good) if good else math.nan:.4f}"
    )
