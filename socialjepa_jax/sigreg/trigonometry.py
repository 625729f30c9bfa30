"""Trigonometric sums at equally spaced frequencies: the arithmetic behind the fast statistic.

With z = exp(i theta), all 2K numbers cos(k theta), sin(k theta), k = 1 ... K, follow from one sine
and cosine. For a `span` b and the pivot q = 2b + 1, the powers z^1 ... z^b and z^q are enough:
z^(q+j) and z^(q-j) use the same four real products of z^q and z^j, so both the sums over samples
and the polynomials in z need two multiply-adds per frequency, and K <= 3b + 1.

Shape key: N samples, M slices, K frequencies. Leading axes pass through.
"""

import jax
import jax.numpy as jnp
import numpy as np

Phase = tuple[jax.Array, jax.Array]
"""Cosine and sine of the same angles: a unit complex number."""

# Least-maximum-error polynomials on [-pi/2, pi/2]: sin x = x + x^3 S(x^2) to 5e-9 and
# cos x = 1 - x^2/2 + x^4 C(x^2) to 4e-10; float32 rounds at 6e-8.
_SIN = (2.5999032386e-06, -1.9806547095e-04, 8.3330163552e-03, -1.6666657059e-01)
_COS = (-2.6192483949e-07, 2.4769240663e-05, -1.3888568213e-03, 4.1666655730e-02)
_PI_HIGH = 3.140625  # 8 bits: k * _PI_HIGH is exact for k < 2^16
_PI_LOW = np.pi - _PI_HIGH


def _polynomial(x: jax.Array, coefficients: tuple[float, ...]) -> jax.Array:
    """Horner's rule, highest power first."""
    value = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def phase(half_angle: jax.Array) -> Phase:
    """Cosine and sine of twice `half_angle` (float32), by polynomials: absolute error 2.6e-7.

    Much faster than the library calls on CPUs. Reducing the half angle modulo pi changes the
    doubled angle by full turns only, so no quadrants are distinguished. Infinite input gives NaN.
    """
    turns = jnp.round(half_angle * (1.0 / np.pi))
    x = (half_angle - turns * _PI_HIGH) - turns * _PI_LOW
    x = jnp.clip(x, -1.6, 1.6)  # beyond 2^16 turns no digits are left; stay on the unit circle
    x2 = x * x
    sine = x + x * x2 * _polynomial(x2, _SIN)
    cosine = (1.0 - 0.5 * x2) + x2 * x2 * _polynomial(x2, _COS)
    return cosine * cosine - sine * sine, 2.0 * (sine * cosine)


def _multiply(a: Phase, b: Phase) -> Phase:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _span(num_frequencies: int) -> int:
    return max(1, -(-(num_frequencies - 1) // 3))


def _powers(half_angle: jax.Array, span: int) -> tuple[list[Phase], Phase]:
    """z^1 ... z^span and the pivot z^(2 span + 1), by products of logarithmic depth."""
    powers = [phase(half_angle)]
    for k in range(2, span + 1):
        powers.append(_multiply(powers[k // 2 - 1], powers[k - k // 2 - 1]))
    return powers, _multiply(powers[-1], _multiply(powers[-1], powers[0]))


def trigonometric_sums(half_angle_NM: jax.Array, num_frequencies: int) -> Phase:
    """Sums over samples of cos(2 k x) and sin(2 k x) for k = 1 ... K: two arrays [..., K, M]."""
    powers, (pivot_cos, pivot_sin) = _powers(half_angle_NM, _span(num_frequencies))

    def totals(*terms: jax.Array) -> jax.Array:
        return jnp.concatenate([jnp.sum(x, axis=-2, keepdims=True) for x in terms], axis=-2)

    def in_order(low: jax.Array, down: jax.Array, pivot: jax.Array, up: jax.Array) -> jax.Array:
        rows = jnp.concatenate([low, jnp.flip(down, axis=-2), pivot, up], axis=-2)
        return rows[..., :num_frequencies, :]

    cc, ss = (
        totals(*(pivot_cos * c for c, _ in powers)),
        totals(*(pivot_sin * s for _, s in powers)),
    )
    sc, cs = (
        totals(*(pivot_sin * c for c, _ in powers)),
        totals(*(pivot_cos * s for _, s in powers)),
    )
    cosines = in_order(totals(*(c for c, _ in powers)), cc + ss, totals(pivot_cos), cc - ss)
    sines = in_order(totals(*(s for _, s in powers)), sc - cs, totals(pivot_sin), sc + cs)
    return cosines, sines


def trigonometric_sums_one_by_one(half_angle_NM: jax.Array, num_frequencies: int) -> Phase:
    """Computes `trigonometric_sums` from one sine and cosine per frequency, storing no terms.

    More arithmetic, but a compiler that fuses what is elementwise into one reduction reads the
    angles once, where sums of shared powers make it store all 2.5 K terms, [N, M] each.
    """
    lead = (1,) * (half_angle_NM.ndim - 2)
    k_1K1 = jnp.arange(1, num_frequencies + 1, dtype=half_angle_NM.dtype).reshape(*lead, 1, -1, 1)
    cosine_NKM, sine_NKM = phase(half_angle_NM[..., None, :] * k_1K1)
    return jnp.sum(cosine_NKM, axis=-3), jnp.sum(sine_NKM, axis=-3)


def trigonometric_polynomial(
    half_angle_NM: jax.Array, a_KM: jax.Array, b_KM: jax.Array
) -> jax.Array:
    """sum_k a_k cos(2 k x) + b_k sin(2 k x) with coefficients [..., K, M] for each slice.

    Returns:
        [..., N, M], made in one pass over the angles.
    """
    num_frequencies = a_KM.shape[-2]
    span = _span(num_frequencies)
    powers, (pivot_cos, pivot_sin) = _powers(half_angle_NM, span)

    def row(coefficients_KM: jax.Array, k: int) -> jax.Array | float:
        return coefficients_KM[..., k - 1 : k, :] if k <= num_frequencies else 0.0

    pivot = 2 * span + 1
    low: jax.Array | float = 0.0
    of_cos, of_sin = row(a_KM, pivot), row(b_KM, pivot)
    for k, (c, s) in enumerate(powers, start=1):
        low += row(a_KM, k) * c + row(b_KM, k) * s
        a_up, a_down = row(a_KM, pivot + k), row(a_KM, pivot - k)
        b_up, b_down = row(b_KM, pivot + k), row(b_KM, pivot - k)
        of_cos += (a_up + a_down) * c + (b_up - b_down) * s
        of_sin += (b_up + b_down) * c + (a_down - a_up) * s
    return low + pivot_cos * of_cos + pivot_sin * of_sin
