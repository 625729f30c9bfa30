"""A program outside the package that brings its own data, objective and optimiser.

It trains twice: in one go, and stopped half-way and gone on; prints what came of it.
"""

import dataclasses
import json
import pathlib
import shutil
import sys

import jax
import jax.numpy as jnp
import numpy as np

import socialjepa_jax as sj
from socialjepa_jax.config import Agents, Run
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.protocols import ConstantFeed
from socialjepa_jax.keys import Stream, agent_key
from socialjepa_jax.optim import Group
from socialjepa_jax.sharding import AGENT, own_rows

SIDE = 8


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Waves:
    """A source that draws its images on the device: stripes of a random phase.

    Attributes:
        frequency: f32[A].
    """

    frequency: jax.Array

    def specs(self):
        return Waves(jax.P(AGENT))

    def batch(self, step, seed, batch_size):
        key = jax.random.fold_in(agent_key(seed, Stream.WORLD), step)
        phase_B = own_rows(jax.random.uniform(key, (batch_size,)))
        row = jnp.linspace(0.0, 2 * jnp.pi, SIDE)
        waves_BW = jnp.sin(self.frequency * row[None] + 2 * jnp.pi * phase_B[:, None])
        image = jnp.broadcast_to(waves_BW[:, None, :, None], (len(phase_B), SIDE, SIDE, 1))
        index = own_rows(jnp.arange(batch_size))
        return {"image": image, "index": index, "mean": jnp.zeros(1), "std": jnp.ones(1)}


class WavesFeed(ConstantFeed):
    """Batches from `Waves`, and the data set's images for evaluations."""

    def __init__(self, dataset, opening):
        source = Waves(jnp.array([1.0, 2.0])[: len(opening.cameras)])
        super().__init__(
            jax.device_put(source, jax.NamedSharding(opening.mesh, jax.P(AGENT))),
            np.ones(dataset.num_states, bool),
        )
        object.__setattr__(self, "cameras", opening.cameras)
        object.__setattr__(self, "images", dataset.images)
        sharding = jax.NamedSharding(opening.mesh, jax.P(AGENT))
        count = len(opening.cameras)
        object.__setattr__(self, "mean", jax.device_put(np.zeros((count, 1), np.float32), sharding))
        object.__setattr__(self, "std", jax.device_put(np.ones((count, 1), np.float32), sharding))

    def begin(self, passed_over):
        pass

    def states(self):
        yield self.images[list(self.cameras)]


@dataclasses.dataclass(frozen=True)
class Stripes:
    """A data set of stripes; training draws its own."""

    kind: str = "stripes"
    image_size: int = SIDE
    channels: int = 1
    num_cameras: int = 2

    def load(self, cache):
        states = np.arange(40)
        images = np.random.default_rng(0).integers(0, 256, (2, 40, SIDE, SIDE, 1), np.uint8)
        label = (states % 2).astype(np.int32)
        return ViewDataset(
            name="stripes", images=images, state_ids=states, instance_ids=states.astype(np.int32),
            labels=label, label_names=("a", "b"), factors=label[:, None],
            factor_names=("category",), split_state=(states % 4 == 0).astype(np.int32),
            split_instance=(states % 5 == 0).astype(np.int32), overlap=0.0,
        )  # fmt: skip

    def open_feed(self, dataset, opening):
        return WavesFeed(dataset, opening)


@dataclasses.dataclass(frozen=True)
class Pca:
    """A linear autoencoder with tied weights of unit rows; its bias moves from step 4 on."""

    kind: str = "pca"
    dim: int = 3

    def init(self, key):
        weight = jax.random.normal(key, (self.dim, SIDE * SIDE))
        return {"weight": weight, "bias": jnp.zeros(SIDE * SIDE)}, {}

    def loss(self, params, aux, batch, key, hparams, reduce):
        x_BP = batch["image"].reshape(len(batch["index"]), -1) + params["bias"][None]
        error = jnp.square(x_BP @ params["weight"].T @ params["weight"] - x_BP).mean(-1)
        return reduce.mean(error), (aux, {"seen_step": batch["step"].astype(jnp.float32)})

    def after_update(self, params, aux, step, hparams):
        return aux

    def encode(self, params, aux, images):
        return {"latent": images.reshape(len(images), -1) @ params["weight"].T}

    def groups(self, params):
        return {"weight": Group(), "bias": Group(decays=False, clip="bias", frozen_until=4)}

    def project(self, params):
        norm = jnp.linalg.norm(params["weight"], axis=1, keepdims=True)
        return {**params, "weight": params["weight"] / norm}


@dataclasses.dataclass(frozen=True)
class Momentum:
    """Gradient descent with momentum."""

    kind: str = "momentum"
    learning_rate: float = 0.1

    def init(self, params):
        return jax.tree.map(jnp.zeros_like, params)

    def apply(self, grads, opt_state, params, *, step, total_steps, rate, groups):
        opt_state = jax.tree.map(lambda m, g: 0.9 * m + g, opt_state, grads)
        rate = rate * self.learning_rate
        moved = jax.tree.map(
            lambda p, m, group: jnp.where(step >= group.frozen_until, p - rate * m, p),
            params, opt_state, groups,
        )  # fmt: skip
        return moved, opt_state, rate


def experiment():
    """Registers the classes; returns a run of eight steps."""
    sj.register("data", "stripes", Stripes)
    sj.register("objective", "pca", Pca)
    sj.register("optim", "momentum", Momentum)
    run = Run(steps=8, batch_size=8, steps_per_call=1, log_every=4, eval_every=4, save_every=4)
    agents = Agents((0, 1), (0, 1))
    return sj.Experiment("Plugin", Stripes(), Pca(), agents=agents, optim=Momentum(), run=run)


def main(folder):
    straight = sj.train(experiment(), folder / "straight")
    shutil.copytree(folder / "straight", folder / "stopped")
    checkpoints = folder / "stopped" / "checkpoints"
    shutil.rmtree(checkpoints / "8")  # as a run that was killed after step 4
    resumed_at = sorted(int(path.name) for path in checkpoints.glob("[0-9]*"))
    again = sj.train(experiment(), folder / "stopped")
    leaves = zip(jax.tree.leaves(straight.state), jax.tree.leaves(again.state), strict=True)
    encoders = sj.load(folder / "straight")
    found = {
        "steps": np.asarray(again.state.step).tolist(),
        "resumed_at": resumed_at,
        "equal": all(bool((np.asarray(a) == np.asarray(b)).all()) for a, b in leaves),
        "kinds": [getattr(encoders.config, part).kind for part in ("data", "objective", "optim")],
        "unit_rows": float(np.linalg.norm(encoders.params["weight"], axis=2).mean()),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
