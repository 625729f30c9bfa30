"""Random keys of an agent: one named stream for each use, all functions of (seed, step)."""

import enum

import jax

PRNG = "threefry2x32"  # not jax's default, which the environment may change


class Stream(enum.IntEnum):
    """Random streams of an agent; the number is folded into its key and must not change."""

    INIT = 0  # initial parameters
    ORDER = 1  # order of the training rows in every epoch
    STEP = 2  # masks, slices, crops and colours of a step
    SHUFFLE = 3  # orders of the pixels of images
    WORLD = 7  # states that a world draws
    VIEW = 8  # the fixed views of pictures; its seeds are cameras
    FIXED_SLICES = 101  # SIGReg directions that are kept for a whole run


def agent_key(seed: jax.typing.ArrayLike, stream: Stream) -> jax.Array:
    """Returns the key of one stream of the agent with this seed."""
    return jax.random.fold_in(jax.random.key(seed, impl=PRNG), stream)


def step_keys(seed: jax.Array, step: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the keys of the objective and of the augmentation at a step; equal on all shards."""
    loss_key, augment_key = jax.random.split(jax.random.fold_in(agent_key(seed, Stream.STEP), step))
    return loss_key, augment_key
