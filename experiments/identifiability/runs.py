"""Budgets, learners and trained runs of the identifiability experiments."""

import functools
import json
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.findings import Finding, Rows
from experiments.identifiability import sweep
from experiments.identifiability.sweep import Outcome, Preset
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability import hermite, metrics
from socialjepa_jax.identifiability.mixings import Mixing, Parabola, RealNVP, Sinusoid, Spiral
from socialjepa_jax.identifiability.worlds import LatentWorld, stack
from socialjepa_jax.models.coupling import CouplingConfig
from socialjepa_jax.models.mlp import MLPConfig
from socialjepa_jax.objectives.pairs import Pairs

PRESET = sweep.PRESETS["code"]  # the published tables follow the code


@dataclass(frozen=True)
class Budget:
    """Size and length of a run.

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
    if budget.steps == PUBLISHED.steps or not isinstance(mixing, RealNVP):
        return budget
    return replace(budget, steps=budget.steps * COUPLING_FACTOR)


NVP_2D = RealNVP(CouplingConfig(2, 8))
MIXINGS: dict[str, Mixing] = {
    "spiral": Spiral(),
    "parabola": Parabola(),
    "sinusoid": Sinusoid(),
    "realnvp": NVP_2D,
}
# The published code's lambdas in 2-D; AnInfoNCE is ours and takes InfoNCE's.
WEIGHTS = {"sigreg": 1e-3, "whiten": 0.5, "infonce": 0.5, "aninfonce": 0.5, "none": 0.5}


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
    """Returns an MLP learner, or the matched one if `mixing` is a RealNVP."""
    encoder: MLPConfig | CouplingConfig = MLPConfig(
        inputs, outputs or inputs, budget.hidden, preset.mlp_layers
    )
    if isinstance(mixing, RealNVP):
        c = mixing.config
        encoder = CouplingConfig(c.dim, c.layers, c.kind, init="normal", gain=1.0)
    return Pairs(
        encoder,
        regularizer=regularizer,
        convention=preset.convention,
        flatten=preset.flatten,
        num_slices=budget.num_slices,
        quadrature=preset.quadrature,
        kernel=kernel,
    )


@dataclass(frozen=True)
class SweepRun:
    """One setting of a sweep, to be run with several seeds.

    Attributes:
        process: parameters of its latent process.
        rho: correlation of a pair, for the bound.
        weight: lambda.
        samples: of a finite world; None for fresh pairs at every step.
        labels: further columns of its rows.
    """

    process: Any
    rho: float
    weight: float = WEIGHTS["sigreg"]
    samples: int | None = None
    labels: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A setting trained with one seed.

    Attributes:
        row: settings, labels and metrics.
        outcome: latents, observations and encodings of fresh pairs.
        encode: observations [N, X] -> codes f64[N, E].
        code: latents f32[N, D] -> codes f32[N, E] of their observations; traceable.
    """

    row: dict[str, Any]
    outcome: Outcome
    encode: Callable[[np.ndarray], np.ndarray]
    code: Callable[[jax.Array], jax.Array]


def train(
    world: LatentWorld,
    objective: Pairs,
    runs: Sequence[SweepRun],
    budget: Budget,
    preset: Preset = PRESET,
    tries: int = 1,
) -> list[TrainedRun]:
    """Trains each run with the seeds 0 ... budget.seeds - 1, as agents of one sweep.

    Args:
        world: of all runs.
        objective: of all runs.
        runs: settings of the sweep.
        budget: of a run. The seed is that of draws, initialisation and the mixing's weights.
        preset: conventions of paper or code.
        tries: attempts a seed, 1,000 apart; as in the published code the one with the least last
            loss is kept. They differ in the mixing too.

    Returns:
        A trained run for each run and seed, run by run.
    """
    attempts = [
        (run, seed + 1000 * k) for run in runs for seed in range(budget.seeds) for k in range(tries)
    ]
    seeds = [seed for _, seed in attempts]
    trainer = sweep.make_trainer(
        world,
        objective,
        sweep.published_optimizer(preset),
        len(attempts),
        steps=budget.steps,
        batch_size=budget.batch_size,
        steps_per_call=budget.steps // 4,
    )
    each = [world.params(run.process, seed, run.samples) for run, seed in attempts]
    worlds = stack(each)
    weights = [run.weight for run, _ in attempts]
    hparams = sweep.make_hparams(seeds, steps=budget.steps, weight=weights)
    trained = sweep.train(trainer, worlds, hparams)
    outcomes = sweep.outcomes(trainer, trained.state, worlds, seed=4321, num=budget.points)
    measured = []
    for k, ((run, seed), outcome) in enumerate(zip(attempts, outcomes)):
        row = {"rho": run.rho, "seed": seed, "lambda": run.weight, **run.labels}
        row |= outcome.metrics(run.rho)
        row |= {name: float(curve[k, -1]) for name, curve in trained.curves.items()}
        if type(world.process) is OrnsteinUhlenbeck:
            row |= _theory(outcome, run.rho)
        mixed = functools.partial(world.mixing.forward, each[k]["mixing"])
        measured.append(_trained(row, outcome, _encoder(objective, trained.state, k), mixed))
    groups = [measured[start : start + tries] for start in range(0, len(measured), tries)]
    return [min(group, key=lambda run: run.row["loss"]) for group in groups]


def trained_rows(
    world: LatentWorld,
    objective: Pairs,
    runs: Sequence[SweepRun],
    budget: Budget,
    tries: int = 1,
) -> Rows:
    """Rows of the trained runs, see `train`."""
    return [run.row for run in train(world, objective, runs, budget, tries=tries)]


def _theory(outcome: Outcome, rho: float) -> dict[str, float]:
    """Slack of the bound, recovered dynamics and variance by Hermite degree in a Gaussian world."""
    columns: dict[str, float] = {}
    if outcome.h.shape != outcome.z.shape:
        return columns
    slack, error = metrics.bound_slack(outcome.z, outcome.h, outcome.h_prime, rho)
    dynamics = metrics.recovered_dynamics(outcome.h, outcome.h_prime, rho)
    columns |= {"slack": slack, "slack_std": error}
    columns |= {k: float(v) for k, v in dynamics.items() if k.endswith("error")}
    if outcome.z.shape[1] == 2:
        energy = hermite.hermite_spectrum(outcome.z, outcome.h, 5).sum(0)[1:]
        total = np.var(outcome.h, axis=0).sum()
        columns |= {f"degree_{d}": float(e / total) for d, e in enumerate(energy, 1)}
    return columns


def _trained(
    row: dict[str, Any],
    outcome: Outcome,
    encode: Callable[[jax.Array], jax.Array],
    mixed: Callable[[jax.Array], jax.Array],
) -> TrainedRun:
    """The run of an encoder behind a mixing of latents."""
    return TrainedRun(
        row,
        outcome,
        lambda x: np.asarray(encode(jnp.asarray(x, jnp.float32)), np.float64),
        lambda z: encode(mixed(z)),
    )


def _encoder(objective: Pairs, state: Any, k: int) -> Callable[[jax.Array], jax.Array]:
    """The encoder of run k: observations f32[N, X] -> codes f32[N, E]; traceable."""
    params = jax.device_get(jax.tree.map(lambda leaf: leaf[k], state.params))
    return lambda x: objective.encode(params, {}, x)["latent"]


def by_loss(rows: Rows) -> str:
    """Sentence on R² at the least and the largest loss of runs that differ in the seed only."""
    best, *_, worst = sorted(rows * 2, key=lambda row: row["loss"])
    return (
        f"training stops in different places, R² {best['r2_hz']:.4f} at a loss of "
        f"{best['loss']:.4f} and {worst['r2_hz']:.4f} at {worst['loss']:.4f}"
    )


def settings(budget: Budget, **more: Any) -> dict[str, Any]:
    """Facts about the runs for the captions."""
    return {"preset": "code", **asdict(budget), **more}


def stored_rows(
    names: Sequence[str],
    out: pathlib.Path,
    scale: str,
    fallback: tuple[str, Callable[[str, pathlib.Path], Finding]],
) -> Rows:
    """Rows that earlier experiments at this scale left in `out`, or those of the fallback.

    Args:
        names: of the experiments.
        out: folder of their files.
        scale: rows of other scales are left out.
        fallback: name and run function of the experiment to run if there are no rows.

    Returns:
        The rows, with the experiment's name in the column "experiment".
    """
    found: Rows = []
    for name in names:
        path = out / f"{name}.json"
        if path.exists():
            stored = json.loads(path.read_text())
            if stored["scale"] == scale:
                found += [{"experiment": name, **row} for row in stored["rows"]]
    name, run = fallback
    return found or [{"experiment": name, **row} for row in run(scale, out).rows]
