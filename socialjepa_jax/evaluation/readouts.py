"""Linear readouts of continuous states from latents, by ridge regression on labelled states.

Shape key: N states, D latent dimensions, L state dimensions.
"""

import numpy as np

from socialjepa_jax import alignment
from socialjepa_jax.collaboration import worth
from socialjepa_jax.evaluation.splits import Split

LABELS = (5, 20, 100)  # numbers of labelled states of an agent's own readout
DRAWS = 20  # draws of a few states that are averaged
_RIDGE = 1e-3  # on standardised latents: next to nothing


def readout(z_ND: np.ndarray, states_NL: np.ndarray, rows: np.ndarray) -> alignment.LinearMap:
    """Fits a ridge readout of the states to the given rows."""
    return alignment.fit(z_ND[rows], states_NL[rows], ridge=_RIDGE)


def r2_of_states(predicted_NL: np.ndarray, states_NL: np.ndarray) -> np.ndarray:
    """Returns R2 of each state, about the mean of the rows: f64[L]."""
    states = np.asarray(states_NL, np.float64)
    total_L = np.square(states - states.mean(0)).sum(0)
    return 1.0 - np.square(states - predicted_NL).sum(0) / total_L


def readout_r2(z_ND: np.ndarray, states_NL: np.ndarray, split: Split) -> np.ndarray:
    """Returns the held-out R2 of a ridge readout of each state: f64[L]."""
    predicted = readout(z_ND, states_NL, split.train).forward(z_ND[split.test])
    return r2_of_states(predicted, states_NL[split.test])


def carried(
    linear_map: alignment.LinearMap,
    x: np.ndarray,
    y: np.ndarray,
    states: np.ndarray,
    split: Split,
    names: tuple[str, ...] = (),
) -> dict[str, float]:
    """Returns the R2 of the states by x's readout on y mapped back: no label of y is used.

    Args:
        linear_map: from x to y.
        x, y: f32[N, D], f32[N, E].
        states: f32[N, L].
        split: of the states.
        names: of the states, each of which gets its R2 beside the mean.
    """
    source = readout(x, states, split.train)
    predicted = source.forward(linear_map.backward(y[split.test], "regression"))
    r2_L = r2_of_states(predicted, states[split.test])
    each = {f"readout_carried/{name}": float(r2) for name, r2 in zip(names, r2_L)}
    return {"readout_carried": float(r2_L.mean()), **each}


def own_readouts(y: np.ndarray, states: np.ndarray, split: Split) -> dict[str, float]:
    """Returns the R2 of y's own readouts from few labels, means over draws, and from all."""
    counts = [count for count in LABELS if count <= len(split.train)]
    if not counts:
        return {}

    def score(rows: np.ndarray) -> float:
        predicted = readout(y, states, rows).forward(y[split.test])
        return float(r2_of_states(predicted, states[split.test]).mean())

    scores = worth.few_labels(score, split.train, counts, draws=DRAWS)
    return {f"readout_own@{n}": float(r2) for n, r2 in zip(counts, scores)}
