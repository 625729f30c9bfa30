"""A tiny world of frame pairs with two cameras, and coupled agents in it."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from socialjepa_jax import agents, build, sharding
from socialjepa_jax.data import order
from socialjepa_jax.data.protocols import PairedSource
from socialjepa_jax.keys import Stream, agent_key
from socialjepa_jax.models.patch_net import PatchNetConfig
from socialjepa_jax.objectives.coupled import Link, Migration, Mutual
from socialjepa_jax.objectives.pairs.frames import FramePairs
from socialjepa_jax.optim import AdamW

SEEDS, PARTNERS = (3, 4), (13, 14)
POOL, BATCH, SIDE, STEPS = 64, 16, 4, 20
NET = PatchNetConfig(image_size=SIDE, channels=2, patches=(2,), widths=(5,), hidden=6)
SINGLE = FramePairs(encoder=NET, num_slices=8, weight=0.3)
LINK = Link(memory=64, every=4)
MUTUAL = Mutual(objective=SINGLE, link=LINK)
MIGRATION = Migration(objective=SINGLE, teacher="runs/teacher", link=LINK)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["frames", "mean", "std", "order"], meta_fields=[]
)
@dataclass(frozen=True)
class Frames:
    """Pairs f32[A, P, 2, H, W, C]; `order` u32[A] is the seed of their order."""

    frames: jax.Array
    mean: jax.Array
    std: jax.Array
    order: jax.Array

    def specs(self):
        return jax.tree.map(lambda _: P(sharding.AGENT), self)

    def batch(self, step, seed, batch_size):
        key = agent_key(self.order, Stream.ORDER)
        index = sharding.own_rows(order.batch_rows(key, step, len(self.frames), batch_size))
        pair = self.frames[index]
        found = {"image": pair[:, 0], "next": pair[:, 1], "index": index}
        return {**found, "mean": self.mean, "std": self.std}


@functools.cache
def source(camera, poison=-1):
    """Frames of latents of one world, seen by a camera; the step `poison` has a NaN."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2, POOL, 1, 3))
    z = np.concatenate([z, 0.9 * z + 0.4 * rng.normal(size=z.shape)], axis=2)
    lens = np.random.default_rng(7 + camera).normal(size=(3, SIDE * SIDE * 2))
    frames = np.tanh(z @ lens).reshape(2, POOL, 2, SIDE, SIDE, 2).astype(np.float32)
    if poison >= 0:
        frames[:, poison] = np.nan
    ones = np.ones((2, 2), np.float32)
    order_seeds = jnp.asarray(np.array(SEEDS, np.uint32))
    return Frames(jnp.asarray(frames), jnp.asarray(0 * ones), jnp.asarray(ones), order_seeds)


def labels():
    """The largest of the three latents of each state's first frame: i32[2, P]."""
    z = np.random.default_rng(0).normal(size=(2, POOL, 3))  # the first draws of `source`
    return jnp.asarray(z.argmax(-1), jnp.int32)


def hparams(weight=1.0, seeds=SEEDS, **columns):
    """Settings of the agents; `weight` is that of the coupling."""
    found = build.make_hparams(seeds, STEPS)
    found["partner_seed"] = jnp.asarray(np.array(PARTNERS, np.uint32))
    columns = {"gamma": weight, "beta": weight, **columns}
    return found | {k: jnp.full(2, v, jnp.float32) for k, v in columns.items()}


@functools.cache
def trainer(objective, devices=1, steps_per_call=4, max_skips=10):
    return agents.Trainer(
        objective=objective,
        # Biases before a batch norm have no true gradient; a small eps would blow up rounding.
        optimizer=AdamW(learning_rate=1e-2, clip=0.5, eps=1e-2),
        total_steps=STEPS,
        batch_size=BATCH,
        steps_per_call=steps_per_call,
        mesh=sharding.make_mesh(2, BATCH, jax.devices()[:devices]),
        agent_map="map",
        max_skips=max_skips,
    )


def train(objective, of, settings, steps=STEPS, state=None, **fields):
    """Steps the agents; returns their state and the metrics [A, steps]."""
    made = trainer(objective, **fields)
    state = made.init(settings) if state is None else state
    found = []
    for _ in range(steps // made.steps_per_call):
        state, metrics = made.step(state, of, settings)
        found.append(metrics)
    stacked = {k: np.concatenate([m[k] for m in found], axis=1) for k in found[0]}
    return jax.device_get(state), stacked


PAIRED = PairedSource(source(0), source(1))


@functools.cache
def alone(camera, seeds=SEEDS):
    """Single runs on one camera, in the order of the coupled runs."""
    return train(SINGLE, source(camera), hparams(seeds=seeds))[0]


@functools.cache
def teacher():
    """Constants of trained agents on the second camera."""
    state = alone(1, PARTNERS)
    return {"params": state.params, "aux": state.aux,
            "mean": np.zeros((2, 2), np.float32), "std": np.ones((2, 2), np.float32)}  # fmt: skip
