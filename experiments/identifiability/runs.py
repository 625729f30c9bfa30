"""What the identifiability experiments share: budgets, learners, and sweeps measured run by run."""

import json
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.findings import Finding, Rows
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability import metrics, sweep
from socialjepa_jax.identifiability.mixings import Mixing, Parabola, RealNVP, Sinusoid, Spiral
from socialjepa_jax.identifiability.sweep import Outcome, Preset
from socialjepa_jax.identifiability.worlds import LatentWorld, stack
from socialjepa_jax.models.coupling import CouplingConfig
from socialjepa_jax.models.mlp import MLPConfig
from socialjepa_jax.objectives.pairs import Pairs

PRESET = sweep.PRESETS["code"]  # the published tables follow the code


@dataclass(frozen=True)
class Budget:
    """How much is spent on a run.

    Attributes:
        steps: updates.
        batch_size: pairs a step.
        hidden: width of MLP encoders.
        num_slices: of SIGReg.
        seeds: repetitions.
        points: evaluation pairs.
    """

    steps: int
    batch_size: int
    hidden: int
    num_slices: int
    seeds: int
    points: int


PUBLISHED = Budget(20_000, 256, 256, 256, 3, 10_000)
# SIGReg's statistic grows with the batch, so lambda means the same only at the same batch size.
BUDGETS = {
    "smoke": Budget(20, 32, 8, 8, 1, 300),
    "cpu": Budget(2_000, 256, 128, 64, 2, 5_000),
    "gpu": PUBLISHED,
    "paper": PUBLISHED,
}

TRIES = {"smoke": 1, "cpu": 3, "gpu": 3, "paper": 3}  # with couplings of up to 32 latents
COUPLING_FACTOR = 3  # couplings converge more slowly, and their steps are cheap


def for_mixing(budget: Budget, mixing: Mixing) -> Budget:
    """A reduced budget, longer for couplings; the published budget as it is."""
    if budget is PUBLISHED or not isinstance(mixing, RealNVP):
        return budget
    return replace(budget, steps=budget.steps * COUPLING_FACTOR)


NVP_2D = RealNVP(CouplingConfig(2, 8))
MIXINGS: dict[str, Mixing] = {
    "spiral": Spiral(),
    "parabola": Parabola(),
    "sinusoid": Sinusoid(),
    "realnvp": NVP_2D,
}
WEIGHTS = {"sigreg": 1e-3, "whiten": 0.5, "infonce": 0.5, "none": 0.5}  # the code's lambdas in 2-D


def learner(
    budget: Budget,
    regularizer: str = "sigreg",
    *,
    mixing: Mixing | None = None,
    inputs: int = 2,
    outputs: int | None = None,
    kernel: str = "fixed",
    preset: Preset = PRESET,
) -> Pairs:
    """An MLP learner, or the matched one if `mixing` is a RealNVP."""
    encoder: MLPConfig | CouplingConfig = MLPConfig(
        inputs, outputs or inputs, budget.hidden, preset.mlp_layers
    )
    if isinstance(mixing, RealNVP):
        c = mixing.config
        encoder = CouplingConfig(c.dim, c.layers, c.kind, init="normal", gain=1.0)
    return Pairs(
        encoder,
        regularizer,
        preset.convention,
        preset.flatten,
        budget.num_slices,
        preset.quadrature,
        kernel,
    )


@dataclass(frozen=True)
class Run:
    """One run of a sweep.

    Attributes:
        process: parameters of its latent process.
        rho: correlation of a pair, for the bound.
        seed: of the draws, the initialisation and the mixing's weights.
        weight: lambda.
        sigma: kernel width.
        samples: of a finite world.
        labels: what the run is, as columns of its row.
    """

    process: Any
    rho: float
    seed: int = 0
    weight: float = 1e-3
    sigma: float = 1.0
    samples: int | None = None
    labels: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Measured:
    """A trained run: its row, its encodings of fresh pairs, and how to encode anything else."""

    row: dict[str, Any]
    outcome: Outcome
    encode: Callable[[np.ndarray], np.ndarray]


def study(
    world: LatentWorld,
    objective: Pairs,
    runs: Sequence[Run],
    budget: Budget,
    preset: Preset = PRESET,
    tries: int = 1,
) -> list[Measured]:
    """Trains the runs as agents of one program and measures each.

    As in the published code a run may be tried with several seeds (1,000 apart, which change its
    mixing too); the one with the least last loss is kept.
    """
    asked, runs = runs, [replace(r, seed=r.seed + 1000 * k) for r in runs for k in range(tries)]
    trainer = sweep.make_trainer(
        world,
        objective,
        sweep.published_optimizer(preset),
        len(runs),
        steps=budget.steps,
        batch_size=budget.batch_size,
        steps_per_call=budget.steps // 4,
    )
    worlds = stack([world.params(run.process, run.seed, run.samples) for run in runs])
    hparams = sweep.make_hparams(
        [run.seed for run in runs],
        steps=budget.steps,
        weight=[run.weight for run in runs],
        sigma=[run.sigma for run in runs],
    )
    trained = sweep.train(trainer, worlds, hparams)
    found = sweep.outcomes(trainer, trained.state, worlds, seed=4321, num=budget.points)
    measured = []
    for k, (run, outcome) in enumerate(zip(runs, found)):
        row = {"rho": run.rho, "seed": run.seed, "lambda": run.weight, **run.labels}
        row |= outcome.metrics(run.rho)
        row |= {name: float(curve[k, -1]) for name, curve in trained.curves.items()}
        if type(world.process) is OrnsteinUhlenbeck:
            row |= _theory(outcome, run.rho)
        measured.append(Measured(row, outcome, _encoder(objective, trained.state, k)))
    tried = [measured[n * tries : (n + 1) * tries] for n in range(len(asked))]
    return [min(some, key=lambda m: m.row["loss"]) for some in tried]


def _theory(outcome: Outcome, rho: float) -> dict[str, float]:
    """A Gaussian world: the slack of the bound, recovered dynamics, variance by Hermite degree."""
    found: dict[str, float] = {}
    if outcome.h.shape != outcome.z.shape:
        return found
    slack, error = metrics.bound_slack(outcome.z, outcome.h, outcome.h_prime, rho)
    dynamics = metrics.recovered_dynamics(outcome.h, outcome.h_prime, rho)
    found |= {"slack": slack, "slack_std": error}
    found |= {k: float(v) for k, v in dynamics.items() if k.endswith("error")}
    if outcome.z.shape[1] == 2:
        energy = metrics.hermite_spectrum(outcome.z, outcome.h, 5).sum(0)[1:]
        total = np.var(outcome.h, axis=0).sum()
        found |= {f"degree_{d}": float(e / total) for d, e in enumerate(energy, 1)}
    return found


def _encoder(objective: Pairs, state: Any, k: int) -> Callable[[np.ndarray], np.ndarray]:
    params = jax.device_get(jax.tree.map(lambda leaf: leaf[k], state.params))
    return lambda x: np.asarray(
        objective.encode(params, {}, jnp.asarray(x, jnp.float32))["latent"], np.float64
    )


def by_loss(rows: Rows) -> str:
    """What optimisation has to do with it, where runs differ in nothing but the seed."""
    best, *_, worst = sorted(rows * 2, key=lambda row: row["loss"])
    return (
        f"training stops in different places, R² {best['r2_hz']:.4f} at a loss of "
        f"{best['loss']:.4f} and {worst['r2_hz']:.4f} at {worst['loss']:.4f}"
    )


def settings(budget: Budget, **more: Any) -> dict[str, Any]:
    """What a caption says about how the runs were made."""
    return {"preset": "code", **asdict(budget), **more}


def rows_of(
    names: Sequence[str],
    out: pathlib.Path,
    scale: str,
    fallback: Callable[[str, pathlib.Path], Finding],
) -> Rows:
    """Rows that earlier experiments at this scale left in `out`; else those of `fallback`."""
    rows: Rows = []
    for name in names:
        path = out / f"{name}.json"
        if path.exists():
            stored = json.loads(path.read_text())
            if stored["scale"] == scale:
                rows += [{"experiment": name, **row} for row in stored["rows"]]
    return rows or [{"experiment": names[0], **row} for row in fallback(scale, out).rows]
