"""The predicted R2 of the state in a cell of the map, a pure function of the cell's settings.

R2 of a latent is a product of what each of these leaves of it:

spectrum: D outputs go to the D slowest functions of the latents in view (`spectrum.oracle`), so
    a private or a product of slow latents may take the place of a fast one. A product is not
    Gaussian, which costs lambda times R of SIGReg's statistic; whitening has R = 0.
collapse: a feature costs (1 - lambda) (1 - eigenvalue) / (2 D) of alignment, its absence costs
    lambda times SIGReg's statistic of a code without it; the cheaper is kept. No free constant.
view: with an image's noise of s grey values, R2 = a^2 / (a^2 + s^2), where a is the norm of the
    image's derivative by the latent beside those by the others, in the worse camera. A symmetry of
    what is seen hides a latent altogether. Flicker f adds (k f)^2 to s^2.
memory: with q = c (1 - rho^2) / (rho^2 P) the code of P pairs keeps 1 / (1 + q^2): what cannot be
    predicted of a pair is what an encoder can memorise. The square was chosen by calibrating cells.
width: outputs beyond the latents in view, however many, cost w.
noise: SIGReg's gradient is noise beside that of the alignment, whose gap is 1 - rho: g for each
    factor e of lambda / (1 - rho) above r.

The constants s, k, c, w, g, r were fitted to calibrating cells alone. R lies between what a fast
latent was held against (0.20, the calibrating cell of rates at 2.2) and what it was lost to (1.7,
the rates .94, .87, .78 of an earlier world); it is their geometric mean. The cell is identified
where both agents have R2 of at least `ENOUGH`.

Shape key: D features, L latents in view, S shared latents, T knots.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy import optimize, stats

from experiments.motion.phase.cells import BATCH, Cell
from socialjepa_jax.identifiability import spectrum
from socialjepa_jax.sigreg import OFFICIAL

ENOUGH = 0.9


@dataclasses.dataclass(frozen=True)
class Constants:
    """What theory leaves open.

    Attributes:
        noise: s, grey values.
        flicker: k, grey values for a flicker of 1.
        pairs: c.
        width: w.
        slope: g.
        ratio: r.
        rival: R, which is not fitted by `calibrated`.
    """

    noise: float = 3.5
    flicker: float = 3.0
    pairs: float = 3400.0
    width: float = 0.08
    slope: float = 0.2
    ratio: float = 0.25
    rival: float = 0.58


def factors(cell: Cell, apart: Sequence[float], constants: Constants) -> dict[str, np.ndarray]:
    """Returns what each cause leaves of the R2 of the shared latents: f64[S] each.

    Args:
        cell: of the map.
        apart: a of the latents in view.
        constants: the free ones.
    """
    shared, rates = len(cell.latents), cell.rates
    ones = np.ones(shared)
    every, left = (f[:shared] for f in held(cell, constants.rival))
    hidden = np.array([cell.shape == "cube" and name == "yaw" for name in cell.latents])
    signal = np.square(apart[:shared]) * ~hidden
    noise = constants.noise**2 + (constants.flicker * cell.flicker) ** 2
    square = float(np.square(rates).mean())
    memorised = constants.pairs * (1.0 - square) / (square * cell.pool)
    excess = max(0.0, math.log(cell.ratio / constants.ratio))
    return {
        "spectrum": every,
        "collapse": np.divide(left, every, out=ones.copy(), where=every > 0),
        "view": signal / (signal + noise),
        "memory": ones / (1.0 + memorised**2),
        "width": ones * (1.0 - constants.width * (cell.outputs > len(rates))),
        "noise": ones * max(0.0, 1.0 - constants.slope * excess),
    }


def predicted(cell: Cell, apart: Sequence[float], constants: Constants) -> float:
    """Returns the predicted R2 of the shared state."""
    return float(np.prod(list(factors(cell, apart, constants).values()), axis=0).mean())


def cause(cell: Cell, apart: Sequence[float], constants: Constants) -> str:
    """Returns the name of the factor that leaves least."""
    found = factors(cell, apart, constants)
    return min(found, key=lambda name: float(found[name].mean()))


def held(cell: Cell, rival: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the R2 of each latent in view in the D cheapest functions, and in those kept: f64[L].

    The next function is tied with the last one if they cost the same, as in `spectrum.oracle`.
    """
    count, weight = cell.outputs, cell.weight
    eigenvalues, orders = _functions(tuple(cell.rates), count)
    degrees = orders.sum(1)
    costs = (1 - weight) * (1 - eigenvalues) / (2 * count) + weight * rival * (degrees > 1)
    best = np.sort(costs)
    losses = [weight * missing_penalty(count, k) + best[:k].sum() for k in range(count + 1)]
    kept = int(np.argmin(losses))
    linear = orders * (degrees == 1)[:, None]
    return _shares(costs, count) @ linear, _shares(costs, kept) @ linear


def _shares(costs: np.ndarray, count: int, tolerance: float = 1e-9) -> np.ndarray:
    """The share of each function in the `count` cheapest, tied ones alike."""
    if count == 0:
        return np.zeros(len(costs))
    last = np.sort(costs)[count - 1]
    tied = np.abs(costs - last) <= tolerance
    below = costs < last - tolerance
    return below + tied * (count - below.sum()) / tied.sum()


@functools.cache
def _functions(rates: tuple[float, ...], outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and orders of the slowest functions, the latents themselves among them."""
    gaussian = spectrum.copula_spectrum(2.0, num_modes=10, num_cells=200)
    times = [-math.log(rate) for rate in rates]
    number = outputs + 4
    while True:
        found = spectrum.oracle([gaussian] * len(rates), times, number)
        if (found.orders.sum(1) == 1).sum() == len(rates):
            return found.eigenvalues, found.orders
        number += 8


@functools.cache
def missing_penalty(outputs: int, kept: int) -> float:
    """Returns SIGReg's expected statistic of a code of `kept` normal features and zeros.

    A random direction has the variance v ~ Beta(kept / 2, (outputs - kept) / 2) on it; of both
    views' 2 B samples, the statistic is 2 B |phi - phi_0|^2 + 1 - |phi|^2 under the window.
    """
    quantiles = (np.arange(2000) + 0.5) / 2000
    v = np.full(1, float(kept > 0))
    if 0 < kept < outputs:
        v = stats.beta.ppf(quantiles, kept / 2, (outputs - kept) / 2)
    phi = np.exp(-0.5 * v[:, None] * OFFICIAL.knots**2)
    height = 2 * BATCH * (phi - OFFICIAL.target) ** 2 + 1 - phi**2
    return float((height @ OFFICIAL.weights).mean())


def calibrated(
    cells: Sequence[Cell], apart: Mapping[str, Sequence[float]], states: Mapping[str, float]
) -> Constants:
    """Fits the free constants by least squares (soft L1) of the predicted R2.

    Args:
        cells: calibrating ones.
        apart: cell name -> a of the latents in view.
        states: cell name -> measured R2 of the state.
    """
    first = Constants()
    names = [field.name for field in dataclasses.fields(first) if field.name != "rival"]
    start = np.array([getattr(first, name) for name in names])

    def constants(values: Iterable[float]) -> Constants:
        return dataclasses.replace(first, **dict(zip(names, values)))

    def residuals(logs: np.ndarray) -> list[float]:
        tried = constants(start * np.exp(logs))
        return [predicted(c, apart[c.name], tried) - states[c.name] for c in cells]

    found = optimize.least_squares(residuals, np.zeros(len(start)), loss="soft_l1", f_scale=0.05)
    return constants(float(f"{v:.3g}") for v in start * np.exp(found.x))
