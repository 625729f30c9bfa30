"""The Epps-Pulley statistic and its gradient in float64 NumPy, by the definition."""

import numpy as np


def epps_pulley(
    u_NM: np.ndarray, t_max: float, num_knots: int, debiased: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Value [M] and d value / d u [N, M], knot by knot, on the full line [-t_max, t_max]."""
    u_NM = np.asarray(u_NM, np.float64)
    num_samples = len(u_NM)
    knots = np.linspace(-t_max, t_max, 2 * num_knots - 1)
    integrand, slope = [], []
    for t in knots:
        target = np.exp(-(t**2) / 2)
        wave_NM = np.exp(1j * t * u_NM)
        gap_M = wave_NM.mean(0) - target
        distance_M = np.abs(gap_M) ** 2
        slope_NM = 2 / num_samples * (np.conj(gap_M) * (1j * t * wave_NM)).real
        if debiased:  # unbiased |ecf|^2: leave out the N pairs of a sample with itself
            ecf_M = wave_NM.mean(0)
            power_M = (num_samples * np.abs(ecf_M) ** 2 - 1) / (num_samples - 1)
            distance_M = power_M - 2 * target * ecf_M.real + target**2
            slope_NM = (1j * t * wave_NM) * (
                2 / (num_samples - 1) * np.conj(ecf_M) - 2 * target / num_samples
            )
            slope_NM = slope_NM.real
        integrand.append(distance_M * target)
        slope.append(slope_NM * target)
    value_M = num_samples * np.trapezoid(integrand, knots, axis=0)
    return value_M, num_samples * np.trapezoid(slope, knots, axis=0)


def sigreg(
    z_ND: np.ndarray, directions_DM: np.ndarray, t_max: float = 3.0, num_knots: int = 17
) -> tuple[float, np.ndarray]:
    """Mean over slices and its gradient [N, D]."""
    directions_DM = np.asarray(directions_DM, np.float64)
    value_M, slope_NM = epps_pulley(np.asarray(z_ND, np.float64) @ directions_DM, t_max, num_knots)
    return value_M.mean(), slope_NM @ directions_DM.T / len(value_M)
