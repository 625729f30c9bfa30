"""Which methods find the state of a world in motion, and which do not, under one protocol.

The flicker world of `motion_lejepa` (x, y and heading, rho = .9, every image with its own exposure
and colour cast), two cameras 160 degrees apart, three pairs of agents a method. All methods see the
same batches of 128 pairs of successive frames for the same number of updates, by the same optimiser
(`motion_methods`). Each has six tuning trials on other states and seeds: two learning rates times
three values of its own weight, or six learning rates where it has none. The trial is chosen without
labels: the sum of the squared canonical correlations between the codes of successive frames of the
agent's own walk, that is, how much of its next code a code predicts.

A code is what the loss acts on, three numbers (SimCLR: directions of four); of methods without such
a head, the first three principal components of the encoder's output, whitened. R2 of the state is
that of a ridge readout on 2,000 held-out states. Beside the code stands the encoder's output, 128
features (48 of a ViT). "Identified": every agent's code has R2 of at least .9.

Predictions, written before the run:

LeJEPA, VICReg, Barlow Twins and InfoNCE on successive frames identify the state, and W has R2 of at
least .9. For each the best code of three numbers is that of the three slowest functions of the
image, and these are x, y and heading; Barlow's correlations and VICReg's hinges are whitening in
other words, InfoNCE's Gaussian kernel fits the Gaussian transition.
SimCLR does not: its codes lie on a sphere, which no linear map of normal latents fills; at most .9.
The autoencoder, MAE and I-JEPA on single frames do not: exposure and colour are most of the
variance of pixels and of what one patch says of another, so their first components hold at most .5
of the state and W has at most .5 (autoencoder) and .7. Their encoders' outputs hold at most .9, as
untrained ones hold .75, and those of all methods on pairs at least .9.
The reference, trained with the labels of the same 24,000 frames, has at least .95.

Two predictions were added after these runs, before theirs:

VICReg and Barlow Twins lost the heading. Both constrain second moments alone, which a product of
two latents satisfies as well as the heading does, where SIGReg asks for a normal law. So
polynomials of degree two of the state explain at least .9 of their codes, of which linear ones
explain two thirds.
MAE and I-JEPA alone have a ViT. LeJEPA on the same ViT, `lejepa_vit`, holds at least .5 of the
state in its encoder's output, which is more than these two.

Command: python -m experiments.reproduce --only=rivals_motion --out=runs/rivals_motion
Cost at --scale=cpu: 100 CPU seconds to render and about as many for each of 10 methods; finished
methods are kept.
Expected at --scale=cpu: 23 of 30 claims agree. R2 of the state by three numbers is .961 of LeJEPA,
.972 of InfoNCE, .881 of SimCLR, .661 of VICReg and .669 of Barlow Twins, at most .052 of methods on
single frames, .989 with labels. LeJEPA on the ViT has .273 in its encoder's output, so MAE's .151
and I-JEPA's .292 say little of their objectives.
"""

import dataclasses
import functools
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from experiments import findings
from experiments.findings import Finding, Rows
from experiments.motion import pairs
from experiments.motion.pairs import InMemory
from experiments.rivals import motion_claims
from experiments.rivals.methods import PIXELS
from experiments.rivals.motion_methods import CODE, METHODS, REFERENCE, Method, columns
from socialjepa_jax import alignment, build
from socialjepa_jax.agents import AgentState
from socialjepa_jax.config import Agents
from socialjepa_jax.evaluation import controls
from socialjepa_jax.evaluation.latents import encode_chunks, encode_states
from socialjepa_jax.evaluation.readouts import readout_r2
from socialjepa_jax.evaluation.splits import Split
from socialjepa_jax.records import RowName
from socialjepa_jax.running.hooks import Progress

STEPS = {"smoke": 4, "cpu": 400, "gpu": 1000, "paper": 1000}
PAIRS = {"smoke": 1, "cpu": 3, "gpu": 10, "paper": 10}
TRIALS = 6
TUNING_SEED, FIRST_SEED = 9_000, 9_100  # of agents
TUNING_STATES, STATES = 11, 12  # seeds of the worlds' states and actions
SMOKE = {"data__pool": 128, "data__states": 64, "run__batch_size": 16}
WALK = {"smoke": 64, "cpu": 3_000, "gpu": 3_000, "paper": 3_000}

Outputs = dict[str, np.ndarray]  # name -> f32[A, N, D]


def run(scale: str, out: pathlib.Path) -> Finding:
    """Tunes, trains and measures every method, or reads what an earlier call left in `out`."""
    worlds = Worlds(scale)
    rows: Rows = [row for name in (PIXELS, *METHODS) for row in _kept(worlds, name, out)]
    return Finding(
        "Who finds the state of a world in motion",
        motion_claims.claims(rows),
        {"": motion_claims.plot(rows)},
        rows,
        [motion_claims.table(rows)],
        {"steps": STEPS[scale], "pairs": PAIRS[scale], "trials": TRIALS},
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Worlds:
    """The frames of all methods, rendered once.

    Attributes:
        scale: of the run.
    """

    scale: str

    @functools.cached_property
    def tuning(self) -> InMemory:
        """One agent a trial, all on the first camera, with a walk each."""
        walk = {"data__walk": WALK[self.scale], "data__seed": TUNING_STATES}
        world = pairs.experiment(range(TUNING_SEED, TUNING_SEED + TRIALS), **self._changes(walk))
        agents = Agents((0,) * TRIALS, world.agents.seeds)
        return pairs.in_memory(dataclasses.replace(world, agents=agents))

    @functools.cached_property
    def reported(self) -> InMemory:
        """Pairs of agents, of the first and second camera in turn."""
        changes = self._changes({"data__walk": 0, "data__seed": STATES})
        seeds = range(FIRST_SEED, FIRST_SEED + 2 * PAIRS[self.scale])
        return pairs.in_memory(pairs.experiment(seeds, **changes))

    def _changes(self, given: dict[str, Any]) -> dict[str, Any]:
        """Two calls: the second is timed, after all is compiled."""
        steps = STEPS[self.scale]
        smoke = SMOKE if self.scale == "smoke" else {}
        return {**pairs.lasting(steps), "run__steps_per_call": steps // 2, **smoke, **given}


def _kept(worlds: Worlds, name: str, out: pathlib.Path) -> Rows:
    path = out / "rivals_motion" / f"{worlds.scale}_{name.replace(' ', '_')}.json"
    return findings.kept(
        path, lambda: of_pixels(worlds.reported) if name == PIXELS else measure(worlds, name)
    )


def measure(worlds: Worlds, name: str) -> Rows:
    """Chooses a method's trial on one world and measures it on the other.

    Args:
        worlds: both.
        name: of the method.

    Returns:
        A row "trial" for each trial, rows "untrained", "trained" and "mismatched" for each pair
        and space ("code", "features"), and a row "cost".
    """
    method = METHODS[name]
    found = trials(of_method(worlds.tuning, method), method)
    best = max(found, key=lambda row: row["predicted"])
    chosen = [method.trials[best["trial"]]] * len(worlds.reported.chosen.agents.seeds)
    world, watch = of_method(worlds.reported, method), _Watch()
    outputs = encoded(world, train(world, columns(chosen), watch))
    rows = [*found, *pair_rows(world, method, encoded(world, world.fresh), RowName.UNTRAINED)]
    rows += pair_rows(world, method, outputs, RowName.TRAINED)
    run = world.chosen.run
    images = 2 * run.batch_size * run.steps_per_call * len(chosen)
    rows.append({"row": "cost", "images_per_second": images / watch.seconds})
    return [{"method": name, **row} for row in rows]


def of_method(world: InMemory, method: Method) -> InMemory:
    """Returns the agents of a method on the frames of a world."""
    chosen = dataclasses.replace(world.chosen, objective=method.objective)
    return dataclasses.replace(world, chosen=chosen, parts=build.build(chosen))


@dataclasses.dataclass
class _Watch:
    """A hook that takes the CPU seconds of the last call."""

    seconds: float = 0.0
    _begin: float = 0.0

    def __call__(self, progress: Progress) -> None:
        jax.block_until_ready(progress.state)
        now = time.process_time()
        self.seconds, self._begin = now - self._begin, now


def train(world: InMemory, settings: dict[str, list[float]], watch: _Watch) -> AgentState:
    """Trains all agents, the reference with the states of its frames."""
    if METHODS[REFERENCE].objective == world.chosen.objective:
        agents = range(len(world.chosen.agents.seeds))
        states = np.stack([world.feed.pool_states(k) for k in agents])
        return world.train((watch,), **settings, states=states)
    return world.train((watch,), **settings)


def encoded(world: InMemory, state: AgentState) -> Outputs:
    """Encodes the states of a world."""
    outputs: Outputs = encode_states(world.parts.trainer.encode_all, state, world.feed)
    return outputs


def trials(world: InMemory, method: Method) -> Rows:
    """Trains one agent a trial; returns how well its codes predict each other, and its R2."""
    state = train(world, columns(method.trials), _Watch())
    split, feed, count = world.split, world.feed, world.chosen.data.walk
    encode = world.parts.trainer.encode_all
    walked = encode_chunks(encode, state, feed, feed.walked(), count + 1)
    seen = encoded(world, state)
    together = {name: np.concatenate([z, walked[name]], axis=1) for name, z in seen.items()}
    return [
        {"row": "trial", "trial": k, **trial, **_trial(world, method, together, k, split)}
        for k, trial in enumerate(method.trials)
    ]


def _trial(
    world: InMemory, method: Method, outputs: Outputs, agent: int, split: Split
) -> dict[str, float]:
    code, states = codes(method, outputs, agent, split.train), world.dataset.states
    assert states is not None
    walk = code[len(states) :]
    correlations = alignment.canonical_correlations(walk[:-1], walk[1:])
    state = readout_r2(code[: len(states)], states, split).mean()
    return {"predicted": float(np.sum(correlations**2)), "state": float(state)}


def features(outputs: Outputs, agent: int) -> np.ndarray:
    """Returns an agent's encoder outputs f32[N, D]."""
    return outputs.get("hidden", outputs["latent"])[agent]


def codes(method: Method, outputs: Outputs, agent: int, rows: np.ndarray) -> np.ndarray:
    """Returns an agent's code [N, 3], of SimCLR directions [N, 4].

    Args:
        method: of the agent.
        outputs: of all agents.
        agent: its number.
        rows: that principal components are fitted on.
    """
    if "hidden" in outputs:
        return outputs["latent"][agent]
    if "projection" in outputs:
        z = outputs["projection"][agent]
        return z / np.linalg.norm(z, axis=1, keepdims=True) if z.shape[1] > CODE else z
    z = features(outputs, agent)
    return alignment.principal_components(z[rows], CODE)(z)


def pair_rows(world: InMemory, method: Method, outputs: Outputs, row: str) -> Rows:
    """Measures both spaces of every pair (0, 1), (2, 3), ... of agents."""
    split, found = world.split, []
    for pair in range(len(world.chosen.agents.seeds) // 2):
        agents = (2 * pair, 2 * pair + 1)
        spaces = {
            "code": [codes(method, outputs, k, split.train) for k in agents],
            "features": [features(outputs, k) for k in agents],
        }
        for space, (x, y) in spaces.items():
            found.append({"row": row, "pair": pair, "space": space, **scores(world, x, y)})
        if row == RowName.TRAINED:
            found.append(_mismatched(world, *spaces["code"], pair))
    return found


def scores(world: InMemory, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Returns R2 of the state and RankMe of both spaces, R2 of each latent, and R2 of W."""
    split, states = world.split, world.dataset.states
    assert states is not None
    each = [readout_r2(z, states, split) for z in (x, y)]
    return {
        "state": [float(r2.mean()) for r2 in each],
        "latents": {
            name: [float(r2[k]) for r2 in each]
            for k, name in enumerate(world.dataset.state_names)
        },
        "r2": pairs.r2_of_map(x, y, split.train, split.test),
        "rankme": [float(alignment.effective_rank(z[split.test])) for z in (x, y)],
        "explained": [explained(states, z, split) for z in (x, y)],
    }  # fmt: skip


def explained(states: np.ndarray, z: np.ndarray, split: Split) -> list[float]:
    """Returns R2 of a space [N, D] from polynomials of degree one and two of the state."""
    first, second = np.triu_indices(states.shape[1])
    curved = np.concatenate([states, states[:, first] * states[:, second]], axis=1)
    return [pairs.r2_of_map(x, z, split.train, split.test) for x in (states, curved)]


def _mismatched(world: InMemory, x: np.ndarray, y: np.ndarray, pair: int) -> dict[str, Any]:
    """R2 of W between codes of unlike states."""
    split = world.split
    rng, anywhere = np.random.default_rng(pair), np.zeros(len(x), int)
    y = y[controls.shuffled_within(anywhere, (split.train, split.test), rng)]
    r2 = pairs.r2_of_map(x, y, split.train, split.test)
    return {"row": RowName.MISMATCHED, "pair": pair, "space": "code", "r2": r2}


def of_pixels(world: InMemory) -> Rows:
    """Measures principal components of the pixels, as many as codes and features have."""
    rows = world.split.train
    widths: Sequence[tuple[str, int]] = (("code", CODE), ("features", 128))
    return [
        {"method": PIXELS, "row": RowName.PIXEL_PCA, "pair": 0, "space": space}
        | scores(world, *(controls.pixel_pca(x, rows, dim) for x in world.dataset.images))
        for space, dim in widths
    ]
