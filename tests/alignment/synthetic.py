"""Synthetic paired latents with a linear relation and noise."""

import numpy as np


def pairs(n=300, d=6, e=6, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * rng.uniform(0.5, 2, d) + rng.normal(size=d)
    return x, x @ rng.normal(size=(d, e)) + noise * rng.normal(size=(n, e)) + 3.0


def world_pairs(n, d=4, noise=0.5, seed=0):
    """Draws pairs whose mixing matrix is the same for every seed."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    mixing = np.random.default_rng(99).normal(size=(d, d))
    return x, x @ mixing + noise * rng.normal(size=(n, d))
