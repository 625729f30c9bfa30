"""Angles that an image shows modulo a full turn: their best guess, and the slowest code.

An image of an arm is the same after a full turn of a joint. What lies beyond half a turn is read as
if it lay on the other side, and an error of a full turn weighs 39.5 square radians, so a few such
angles cost much R2. Both figures below are exact up to the grid: no agent is trained.

Shape key: C scores of a grid, B bins of the circle.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, stats

from socialjepa_jax.identifiability import spectrum

_REACH, _SCORES, _BINS = 5.0, 2000, 250


@dataclass(frozen=True, eq=False)
class Seen:
    """A joint that follows an Ornstein-Uhlenbeck score, as images show it.

    Attributes:
        spectrum: of the transition of the angle modulo a turn over one step; its nodes are the best
            guesses E[angle | angle modulo a turn].
        best_r2: R2 of that guess on the angle, the most that any readout of images can have.
        edges: f64[B + 1], bins of the circle, radians.
        guesses: f64[B], the best guess in each bin; NaN where no angle falls.
    """

    spectrum: spectrum.Spectrum
    best_r2: float
    edges: np.ndarray
    guesses: np.ndarray

    def guess(self, angles_N: np.ndarray) -> np.ndarray:
        """Returns the best guess of angles (radians) from what images show of them."""
        return self.guesses[_bins(angles_N, self.edges)]


def scores() -> np.ndarray:
    """Returns the grid of standard normal scores f64[C]."""
    return np.linspace(-_REACH, _REACH, _SCORES)


def seen(angles_C: np.ndarray, rho: float) -> Seen:
    """Computes what images show of a joint.

    Args:
        angles_C: its angle, radians, at each of the `scores`.
        rho: correlation of successive scores.
    """
    mass_C = stats.norm.pdf(scores())
    mass_C /= mass_C.sum()
    edges = np.linspace(-np.pi, np.pi, _BINS + 1)
    bins_C = _bins(angles_C, edges)
    used, place_C = np.unique(bins_C, return_inverse=True)
    member_CB = np.eye(len(used))[place_C]
    guess_B = member_CB.T @ (mass_C * angles_C) / (member_CB.T @ mass_C)
    guesses = np.full(_BINS, np.nan)
    guesses[used] = guess_B
    found = _spectrum(member_CB.T @ _transition(mass_C, rho) @ member_CB, guess_B)
    centre = mass_C @ angles_C
    variance = mass_C @ (angles_C - centre) ** 2
    best = found.mass @ (guess_B - centre) ** 2 / variance
    return Seen(found, float(best), edges, guesses)


def _transition(mass_C: np.ndarray, rho: float) -> np.ndarray:
    """Returns the probability of each two successive scores of the grid: f64[C, C]."""
    u_C = scores()
    away_CC = (u_C[None] - rho * u_C[:, None]) / np.sqrt(1.0 - rho**2)
    joint_CC = mass_C[:, None] * stats.norm.pdf(away_CC)
    return joint_CC / joint_CC.sum()


def _spectrum(joint_BB: np.ndarray, nodes_B: np.ndarray) -> spectrum.Spectrum:
    """Returns the spectrum of a transition from the probability of each two successive bins."""
    joint_BB = 0.5 * (joint_BB + joint_BB.T)
    mass_B = joint_BB.sum(1)
    values, vectors = linalg.eigh(joint_BB / np.sqrt(np.outer(mass_B, mass_B)))
    keep = np.flatnonzero(values > 1e-6)[::-1]  # slowest first
    functions_KB = (vectors[:, keep] / np.sqrt(mass_B)[:, None]).T
    return spectrum.Spectrum(nodes_B, mass_B, -np.log(np.minimum(values[keep], 1.0)), functions_KB)


def predicted(joints: Sequence[Seen]) -> np.ndarray:
    """Returns R2 of each joint, linear in as many white outputs as joints: f64[D].

    Alignment under whitening takes the slowest functions of the image (`spectrum.oracle`); the
    transitions of the joints are independent.
    """
    spectra = [joint.spectrum for joint in joints]
    found = spectrum.oracle(spectra, [1.0] * len(joints), len(joints))
    return found.r2_per_latent * [joint.best_r2 for joint in joints]


def _bins(angles_N: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Number of the bin of the circle that each angle falls in: i64[N]."""
    turned = np.mod(np.asarray(angles_N) + np.pi, 2 * np.pi) - np.pi
    return np.clip(np.searchsorted(edges, turned, "right") - 1, 0, len(edges) - 2)
