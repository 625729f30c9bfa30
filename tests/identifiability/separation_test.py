"""Blind separation, and what no passive observation can tell: exact statements on known worlds."""

import itertools

import numpy as np
import pytest
from scipy import linalg, signal

from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability import hermite, separation

DIM, RATES = 3, np.array([0.95, 0.85, 0.6])


def turn(rng):
    return np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]


def path(rates, start, noise):
    """The trajectory of z' = rho z + sqrt(1 - rho^2) xi, by hand."""
    z = [start]
    for xi in noise:
        z.append(rates * z[-1] + np.sqrt(1 - rates**2) * xi)
    return np.array(z)


def trajectory(rng, steps, rates=RATES):
    drive = np.concatenate([rng.normal(size=(1, DIM)),
                            np.sqrt(1 - rates**2) * rng.normal(size=(steps, DIM))])  # fmt: skip
    return np.stack(
        [signal.lfilter([1.0], [1.0, -rate], column) for rate, column in zip(rates, drive.T)], 1
    )


def log_density(start, noise):
    """Of standard normal draws, up to a constant."""
    return -0.5 * (np.square(start).sum() + np.square(noise).sum())


def test_no_passive_trajectory_of_equal_rates_tells_a_rotation():
    """The turned trajectory is that of turned draws, which are exactly as likely."""
    rng = np.random.default_rng(0)
    q, start, noise = turn(rng), rng.normal(size=DIM), rng.normal(size=(50, DIM))
    rates = np.full(DIM, 0.9)
    turned = path(rates, q @ start, noise @ q.T)
    np.testing.assert_allclose(turned, path(rates, start, noise) @ q.T, atol=1e-12)
    assert log_density(q @ start, noise @ q.T) == pytest.approx(log_density(start, noise))
    apart = path(RATES, q @ start, noise @ q.T) - path(RATES, start, noise) @ q.T
    assert np.abs(apart).max() > 0.1  # with distinct rates it is another trajectory


def test_no_passive_trajectory_of_a_reversible_gaussian_world_tells_signs():
    rng = np.random.default_rng(1)
    start, noise = rng.normal(size=DIM), rng.normal(size=(50, DIM))
    for signs in itertools.product((-1.0, 1.0), repeat=DIM):
        flipped = path(RATES, signs * start, noise * signs)
        np.testing.assert_allclose(flipped, path(RATES, start, noise) * signs, atol=1e-12)
        assert log_density(signs * start, noise * signs) == pytest.approx(log_density(start, noise))


def test_odd_moments_of_successive_states_vanish():
    """Exact quadrature over (z, xi): every monomial of odd degree in (z, z') has the mean 0."""
    nodes, weights = hermite.gauss_hermite(2, 6)  # exact to degree 11 in each
    for rate in RATES:
        z, after = nodes[:, 0], rate * nodes[:, 0] + np.sqrt(1 - rate**2) * nodes[:, 1]
        for i, j in itertools.product(range(6), repeat=2):
            moment = weights @ (z**i * after**j)
            if (i + j) % 2:
                assert moment == pytest.approx(0.0, abs=1e-10)
        assert weights @ (z * after) == pytest.approx(rate)  # an even one does not
        assert abs(weights @ ((z + 0.3 * z**2) ** 3)) > 1  # nor do those of a skewed world


def test_a_joint_diagonaliser_is_found_exactly():
    rng = np.random.default_rng(2)
    v = turn(rng)
    matrices = np.stack([v @ np.diag(rng.normal(size=DIM)) @ v.T for _ in range(4)])
    found = separation.joint_diagonaliser(matrices)
    np.testing.assert_allclose(found @ found.T, np.eye(DIM), atol=1e-12)
    np.testing.assert_allclose(np.sort(np.abs(found.T @ v), 1)[:, :-1], 0.0, atol=1e-9)


def test_a_joint_diagonaliser_of_noisy_matrices_is_a_minimum():
    rng = np.random.default_rng(3)
    v, noise = turn(rng), 0.1 * rng.normal(size=(5, DIM, DIM))
    matrices = np.stack([v @ np.diag(rng.normal(size=DIM)) @ v.T for _ in range(5)])
    matrices = matrices + noise + noise.swapaxes(1, 2)

    def off(turned):
        rotated = turned.T @ matrices @ turned
        return np.square(rotated).sum() - np.square(np.diagonal(rotated, axis1=1, axis2=2)).sum()

    found = separation.joint_diagonaliser(matrices)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(50):
            s = size * rng.normal(size=(DIM, DIM))
            assert off(found) <= off(found @ linalg.expm(s - s.T)) + 1e-12
    one = separation.joint_diagonaliser(matrices[:1])  # of one matrix: its eigenvectors
    rotated = one.T @ matrices[0] @ one
    np.testing.assert_allclose(rotated, np.diag(np.diagonal(rotated)), atol=1e-9)


def test_sources_are_the_latents_in_the_order_of_their_rates():
    rng = np.random.default_rng(4)
    z = trajectory(rng, 40_000)
    mixing, mean = rng.normal(size=(DIM, DIM)), rng.normal(size=DIM)
    found = separation.separate(z @ mixing.T + mean, range(1, 9))
    recovered = found(z @ mixing.T + mean)
    correlation = np.corrcoef(recovered.T, z.T)[:DIM, DIM:]
    np.testing.assert_allclose(np.abs(correlation), np.eye(DIM), atol=0.06)
    expected = np.mean([RATES**k for k in range(1, 9)], axis=0)
    np.testing.assert_allclose(found.correlations, expected, atol=0.06)


def test_two_codes_are_matched_by_rates_and_one_pair():
    """Codes of one world, walked through apart: W but for signs, which one clear pair tells."""
    rng = np.random.default_rng(5)
    q1, q2 = turn(rng), turn(rng)
    x, y = (separation.separate(trajectory(rng, 60_000) @ q.T, range(1, 9)) for q in (q1, q2))
    z = np.array([[1.5, -1.2, 0.9]])
    signs = separation.signs_of_pairs(x, y, z @ q1.T, z @ q2.T)
    found = separation.map_of_sources(x, y, signs)
    np.testing.assert_allclose(found, q2 @ q1.T, atol=0.12)
    wrong = separation.map_of_sources(x, y, -signs)
    np.testing.assert_allclose(wrong, -found, atol=1e-12)


@pytest.mark.parametrize(("size", "worst"), [(0.01, 0.95), (0.1, 0.5)])
def test_noise_aslant_the_axes_turns_those_of_lag_1_and_hardly_those_of_lag_8(size, worst):
    """Without sampling error: codes z + e of two agents, e of variance `size` in one direction."""
    rng, rates = np.random.default_rng(7), np.array([0.9, 0.86, 0.82])

    def axes(lag):
        aslant = rng.normal(size=DIM)
        aslant /= np.linalg.norm(aslant)
        values, vectors = np.linalg.eigh(np.eye(DIM) + size * np.outer(aslant, aslant))
        whiten = vectors / np.sqrt(values)
        lagged = whiten.T @ np.diag(rates**lag) @ whiten
        turned = separation.joint_diagonaliser(lagged[None])
        order = np.argsort(-np.diagonal(turned.T @ lagged @ turned))
        found = whiten @ turned[:, order]
        return found * np.sign(np.diagonal(found))

    def r2(lag):
        losses = []
        for _ in range(50):
            w = (axes(lag) @ np.linalg.inv(axes(lag))).T
            losses.append(np.square(w - np.eye(DIM)).sum() / DIM)
        return 1 - np.mean(losses)

    assert r2(8) > 0.97
    assert (r2(1) > worst) == (size < 0.1)


def test_walks_without_a_direction_are_refused():
    z = trajectory(np.random.default_rng(6), 100)
    with pytest.raises(InputError, match="without variance"):
        separation.separate(z @ np.diag([1.0, 1.0, 0.0]), (1,))
    with pytest.raises(InputError, match="longest_lag"):
        separation.separate(z, (1, 200))
