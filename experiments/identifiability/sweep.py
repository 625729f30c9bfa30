"""Many small runs as the agents of one program, each in a world of its own.

Shape key: A agents, S steps, N samples, D latents.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

from socialjepa_jax import build, loop, sharding
from socialjepa_jax.agents import AgentState, Trainer, choose_agent_map
from socialjepa_jax.data.protocols import Batch, ConstantFeed
from socialjepa_jax.errors import check_divides, check_in_range, check_positive
from socialjepa_jax.identifiability import metrics
from socialjepa_jax.identifiability.worlds import LatentWorld, WorldParams
from socialjepa_jax.keys import Stream, agent_key
from socialjepa_jax.objectives.base import HParams
from socialjepa_jax.objectives.pairs import Pairs
from socialjepa_jax.optim import AdamW
from socialjepa_jax.running.hooks import Progress
from socialjepa_jax.sigreg import OFFICIAL, PAPER, Quadrature


@dataclass(frozen=True)
class Preset:
    """A set of conventions, where the identifiability paper and its code differ.

    Attributes:
        convention: of the losses (`Pairs.convention`).
        noised: which views of a training pair are noised (`LatentWorld.noised`).
        mlp_layers: linear layers of the MLP.
        weight_decay: of AdamW; here on kernels only, in the published code on biases too.
        flatten: SIGReg of both views together.
        quadrature: SIGReg's knots.
    """

    convention: str
    noised: str
    mlp_layers: int
    weight_decay: float
    flatten: bool
    quadrature: Quadrature


PRESETS = {
    "code": Preset("code", "both", 5, 0.01, True, OFFICIAL),
    "paper": Preset("paper", "second", 4, 0.0, False, PAPER),
}


def published_optimizer(preset: Preset, learning_rate: float = 3e-3) -> AdamW:
    """AdamW at a constant rate for half of the run, then half a cosine to zero."""
    return AdamW(
        learning_rate=learning_rate,
        start_fraction=1.0,
        warmup_fraction=0.5,
        final_fraction=0.0,
        weight_decay=preset.weight_decay,
        final_weight_decay=preset.weight_decay,
        beta2=0.999,
        clip=1e9,
    )


@functools.partial(jax.tree_util.register_dataclass, data_fields=["params"], meta_fields=["world"])
@dataclass(frozen=True)
class Worlds:
    """The worlds of the agents, from which batches are drawn on the device; a `Source`.

    Attributes:
        params: of the worlds, leaves [A, ...] (`worlds.stack`).
        world: what the worlds have in common.
    """

    params: WorldParams
    world: LatentWorld

    def specs(self) -> "Worlds":
        """Returns the shardings: split over agents, replicated over 'data'."""
        return jax.tree.map(lambda _: P(sharding.AGENT), self)

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns this shard's pairs; the global batch is the same on any mesh."""
        key = jax.random.fold_in(agent_key(seed, Stream.WORLD), step)
        return sharding.own_rows(self.world.batch(self.params, key, batch_size))


@dataclass(frozen=True)
class WorldTrainer(Trainer):
    """A `Trainer` with the world of its agents.

    Attributes:
        world: what the worlds of the agents have in common.
    """

    world: LatentWorld


def make_trainer(
    world: LatentWorld,
    objective: Pairs,
    optimizer: AdamW,
    num_agents: int,
    *,
    steps: int,
    batch_size: int = 256,
    steps_per_call: int = 500,
    agent_map: str = "auto",
    devices: Sequence[jax.Device] | None = None,
) -> WorldTrainer:
    """Builds the trainer of a sweep.

    Args:
        world: of the agents.
        objective: of all runs.
        optimizer: of all runs.
        num_agents: runs of the sweep.
        steps: updates of each run; a multiple of `steps_per_call`.
        batch_size: pairs of a step and agent.
        steps_per_call: steps in one compiled call.
        agent_map: "auto" | "vmap" | "map", see `agents.choose_agent_map`.
        devices: to use; default all.
    """
    check_divides(steps_per_call, steps=steps)
    return WorldTrainer(
        objective=objective,
        optimizer=optimizer,
        total_steps=steps,
        batch_size=batch_size,
        steps_per_call=steps_per_call,
        mesh=sharding.make_mesh(num_agents, batch_size, devices or jax.devices()),
        agent_map=choose_agent_map(agent_map),
        world=world,
    )


def make_hparams(
    seeds: Sequence[int],
    *,
    steps: int,
    weight: float | Sequence[float] = 1e-3,
    sigma: float | Sequence[float] = 1.0,
    learning_rate: float | Sequence[float] = 1.0,
) -> HParams:
    """Makes the settings that differ between the runs, as arrays [A]; single values are shared.

    Args:
        seeds: of initialisation and draws.
        steps: of the run.
        weight: lambda in [0, 1], the regulariser's weight.
        sigma: kernel width of the contrastive losses.
        learning_rate: factor on the optimiser's rate.

    Raises:
        InputError: a value is out of range, or a column has not one value for each seed.
    """
    columns = {"lambda": weight, "sigma": sigma, "learning_rate": learning_rate}
    for value in np.atleast_1d(weight).tolist():
        check_in_range(0.0, 1.0, **{"lambda": value})
    for name in ("sigma", "learning_rate"):
        for value in np.atleast_1d(columns[name]).tolist():
            check_positive(**{name: value})
    return build.make_hparams(seeds, steps, **columns)


@dataclass(frozen=True, eq=False)
class Trained:
    """Runs after training.

    Attributes:
        state: of the agents.
        curves: {metric: f32[A, calls]}, the mean over the steps of each compiled call.
    """

    state: AgentState
    curves: dict[str, np.ndarray]


def train(trainer: WorldTrainer, worlds: WorldParams, hparams: HParams) -> Trained:
    """Trains all runs from their first to their last step.

    Matrix products are in full float32: R2 of 0.9999 is lost in TF32.

    Args:
        trainer: from `make_trainer`.
        worlds: parameters of the worlds, leaves [A, ...].
        hparams: from `make_hparams`.
    """
    calls = []

    def record(progress: Progress) -> None:
        if progress.metrics is not None:
            calls.append(jax.tree.map(lambda m: np.asarray(m).mean(1), progress.metrics))

    with jax.default_matmul_precision("highest"):
        by_agent = sharding.by_agent(trainer.mesh)
        worlds, hparams = jax.device_put((worlds, hparams), by_agent)
        state = loop.train(trainer, ConstantFeed(Worlds(worlds, trainer.world)), hparams, [record])
    return Trained(state, {name: np.stack([c[name] for c in calls], 1) for name in calls[0]})


@dataclass(frozen=True, eq=False)
class Outcome:
    """One run on fresh pairs of its world, in float64.

    Attributes:
        z, x, h: f64[N, D], f64[N, X], f64[N, E], latents, observations and encodings.
        z_prime, h_prime: those of the second views (one transition).
    """

    z: np.ndarray
    x: np.ndarray
    h: np.ndarray
    z_prime: np.ndarray
    h_prime: np.ndarray

    def metrics(self, rho: float) -> dict[str, float]:
        """`identifiability.metrics.evaluate` of this run."""
        return metrics.evaluate(self.z, self.x, self.h, self.h_prime, rho)


def outcomes(
    trainer: WorldTrainer, state: AgentState, worlds: WorldParams, *, seed: int, num: int = 10_000
) -> list[Outcome]:
    """Encodes `num` fresh pairs of every agent's world; all agents share the latents' key."""

    def one(params: Mapping, aux: Mapping, own: WorldParams) -> tuple[jax.Array, ...]:
        s = trainer.world.sample(own, jax.random.key(seed), num)
        encode = trainer.objective.encode
        h, h_prime = (encode(params, aux, x)["latent"] for x in (s.x, s.x_prime))
        return s.z, s.x, h, s.z_prime, h_prime

    with jax.default_matmul_precision("highest"):
        compiled = jax.jit(lambda *args: jax.lax.map(lambda a: one(*a), args))
        found = compiled(state.params, state.aux, worlds)
    arrays = [np.asarray(v, np.float64) for v in jax.device_get(found)]
    return [Outcome(*(a[k] for a in arrays)) for k in range(len(arrays[0]))]
