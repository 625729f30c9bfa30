"""Inverse models: a network that tells the action from the two images around it, end to end.

The rival of codes that were learned without actions (Agrawal et al., "Learning to Poke by Poking",
2016; Pathak et al., "Curiosity-driven Exploration", 2017, section 2.2): features e of one image,
and a linear head on (e(x), e(x')) that predicts the action. The head is linear, which favours this
rival here: with h' = A h + B a the action is linear in (h, h'). The network is that of the agents.

Shape key: T transitions, B batch, D features, M actions.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from socialjepa_jax.models import encoders
from socialjepa_jax.models.patch_net import PatchNetConfig

FEATURES, BATCH, RATE = 3, 128, 6e-3
CHECKS = 6  # times that the held-out tenth of transitions is looked at; the best weights are kept
_CHUNK = 1000


def train(
    walk: np.ndarray, actions: np.ndarray, *, seed: int, steps: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Trains an inverse model on one walk; nine tenths are fitted, one tenth chooses the weights.

    Args:
        walk: u8[T + 1, H, W, C].
        actions: f32[T, M].
        seed: of weights and batches.
        steps: of training; a multiple of `CHECKS` is taken.

    Returns:
        The features of images: u8[N, H, W, C] -> f32[N, D].
    """
    config = PatchNetConfig(image_size=walk.shape[1], channels=walk.shape[3])
    mean, std = (
        f(walk / np.float32(255), axis=(0, 1, 2), keepdims=True) for f in (np.mean, np.std)
    )
    params = _init(config, jax.random.key(seed), actions.shape[1])
    split = len(actions) * 9 // 10
    batch = min(BATCH, split)
    each = max(steps // CHECKS, 1)
    optimizer = _optimizer(each * CHECKS)
    state = optimizer.init(params)
    scale = (jnp.asarray(mean), jnp.asarray(std))
    best, kept = np.inf, params
    for check in range(CHECKS):
        key = jax.random.fold_in(jax.random.key(seed), check)
        params, state = _steps(
            (config, each, batch, each * CHECKS), params, state, key,
            (walk[: split + 1], actions[:split]), scale,
        )  # fmt: skip
        error = float(_error(config, params, walk[split:], actions[split:], scale))
        if error < best:
            best, kept = error, params
    statistics = _embed(config, kept, walk[:_CHUNK], scale)[1]
    embed = functools.partial(_embed, config, kept)

    def encode(images: np.ndarray) -> np.ndarray:
        starts = range(0, len(images), _CHUNK)
        padded = np.concatenate([images, np.repeat(images[-1:], -len(images) % _CHUNK, axis=0)])
        parts = [np.asarray(embed(padded[s : s + _CHUNK], scale, statistics)[0]) for s in starts]
        return np.concatenate(parts)[: len(images)]

    return encode


def _init(config: PatchNetConfig, key: jax.Array, actions: int) -> dict[str, Any]:
    """Draws the encoder, its linear output and the head."""
    first, second, third = jax.random.split(key, 3)
    return {
        "encoder": encoders.init(config, first),
        "out": jax.random.normal(second, (config.width, FEATURES)) / np.sqrt(config.width),
        "head": jax.random.normal(third, (2 * FEATURES, actions)) / np.sqrt(2 * FEATURES),
        "bias": jnp.zeros(actions),
    }


def _optimizer(steps: int) -> optax.GradientTransformation:
    """The optimiser of the agents."""
    rate = optax.warmup_cosine_decay_schedule(0.0, RATE, max(steps // 20, 1), steps)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=1e-4))


@functools.partial(jax.jit, static_argnums=0)
def _embed(
    config: PatchNetConfig, params: Any, images: jax.Array, scale: Any, statistics: Any = None
) -> tuple[jax.Array, Any]:
    mean, std = scale
    shown = (images.astype(jnp.float32) / 255 - mean) / std
    latents, used = encoders.apply(config, params["encoder"], shown, statistics)
    return latents["mean"] @ params["out"], used


def _predict(
    config: PatchNetConfig, params: Any, first: jax.Array, second: jax.Array, scale: Any
) -> jax.Array:
    """Predicts actions f32[B, M] from the images before and after."""
    features, _ = _embed(config, params, jnp.concatenate([first, second]), scale)
    both = jnp.concatenate(jnp.split(features, 2), axis=1)
    return both @ params["head"] + params["bias"][None]


@functools.partial(jax.jit, static_argnums=0)
def _error(
    config: PatchNetConfig, params: Any, walk: jax.Array, actions: jax.Array, scale: Any
) -> jax.Array:
    predicted = _predict(config, params, walk[:-1], walk[1:], scale)
    return jnp.square(predicted - actions).mean()


@functools.partial(jax.jit, static_argnums=0)
def _steps(
    sizes: tuple[PatchNetConfig, int, int, int], params: Any, state: Any, key: jax.Array,
    given: tuple[jax.Array, jax.Array], scale: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Takes some steps of training."""
    config, count, batch, total = sizes
    walk, actions = (jnp.asarray(part) for part in given)
    optimizer = _optimizer(total)

    def loss(params: Any, rows: jax.Array) -> jax.Array:
        predicted = _predict(config, params, walk[rows], walk[rows + 1], scale)
        return jnp.square(predicted - actions[rows]).mean()

    def step(carry: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], None]:
        params, state = carry
        rows = jax.random.randint(key, (batch,), 0, len(actions))
        updates, state = optimizer.update(jax.grad(loss)(params, rows), state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, state), jax.random.split(key, count))[0]
