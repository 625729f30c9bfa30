"""The Dirichlet energy against closed forms: rotations, Hermite codes, shears, a trained limit."""

import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability import dirichlet

NUM = 20_000
Z = np.random.default_rng(0).standard_normal((NUM, 2))
TURN = np.array([[0.6, -0.8], [0.8, 0.6]])


def measured(encode, z=Z):
    return dirichlet.dirichlet(
        z, np.asarray(encode(jnp.asarray(z))), dirichlet.jacobians(encode, z)
    )


def test_a_linear_map_has_the_least_energy_whatever_its_scale():
    matrix = np.diag([3.0, 0.2]) @ TURN
    found = measured(lambda z: z @ jnp.asarray(matrix.T, jnp.float32) + 5.0)
    assert found.energy == pytest.approx(2.0, abs=1e-5)
    assert found.linear == pytest.approx(1.0, abs=1e-6)
    assert found.log_det == pytest.approx(0.0, abs=1e-5)


def test_the_excess_counts_the_degrees_above_the_first():
    """(a z1 + b He2(z1) / sqrt 2 + c He3(z1) / sqrt 6, z2) has energy a^2 + 2 b^2 + 3 c^2 + 1."""
    a, b, c = np.sqrt([0.7, 0.2, 0.1])

    def encode(z):
        first, second = z[:, 0], z[:, 1]
        code = a * first + b * (first**2 - 1) / np.sqrt(2) + c * (first**3 - 3 * first) / np.sqrt(6)
        return jnp.stack([code, second], 1)

    found = measured(encode)
    assert found.energy - 2.0 == pytest.approx(0.2 + 2 * 0.1, abs=0.03)
    assert 1 - found.linear == pytest.approx(0.3 / 2, abs=0.01)
    assert found.energy / 2 - 1 > 1 - found.linear


def test_a_map_that_keeps_the_gaussian_has_log_determinant_zero():
    """A rotation by an angle that grows with the radius; E||J||^2 = 2 + E[r^2 angle'(r)^2]."""
    speed = 0.7

    def encode(z):
        angle = speed * jnp.linalg.norm(z, axis=1)
        c, s = jnp.cos(angle), jnp.sin(angle)
        return jnp.stack([c * z[:, 0] - s * z[:, 1], s * z[:, 0] + c * z[:, 1]], 1)

    found = measured(encode)
    assert found.energy == pytest.approx(2.0 + 2.0 * speed**2, rel=0.01)  # E r^2 = 2
    assert found.log_det == pytest.approx(0.0, abs=0.01)


def test_a_code_that_is_not_gaussian_has_minus_its_negentropy():
    """h = sinh(z1): E ln|det J| = E ln cosh(z1) - ln std, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    mean = lambda f: weights @ f(nodes) / weights.sum()  # noqa: E731
    expected = mean(lambda t: np.log(np.cosh(t))) - 0.5 * np.log(mean(lambda t: np.sinh(t) ** 2))
    found = measured(lambda z: jnp.stack([jnp.sinh(z[:, 0]), z[:, 1]], 1))
    assert found.log_det == pytest.approx(expected, abs=0.03)
    assert found.log_det < 0


def test_the_difference_quotient_tends_to_the_energy_of_the_jacobian():
    encode = lambda z: jnp.stack([jnp.sin(z[:, 0]), z[:, 0] * z[:, 1]], 1)  # noqa: E731
    noise = np.random.default_rng(1).standard_normal(Z.shape)
    along = np.einsum("ned,nd->ne", dirichlet.jacobians(encode, Z), noise)
    limit = np.square(along).sum(1).mean()
    quotients = [dirichlet.difference_quotient(encode, Z, noise, e) for e in (0.3, 0.03, 1e-4)]
    errors = np.abs(np.array(quotients) / limit - 1)
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-3
    assert limit == pytest.approx(0.5 * (1 + np.exp(-2)) + 2.0, rel=0.03)


@pytest.mark.parametrize(
    ("h", "jacobian", "message"),
    [
        (Z[:, :1], np.zeros((NUM, 1, 2)), "h_ND has the shape"),
        (Z, np.zeros((NUM, 2, 1)), "jacobian_NDD"),
        (np.repeat(Z[:, :1], 2, 1), np.zeros((NUM, 2, 2)), "no full rank"),
    ],
)
def test_codes_of_another_shape_or_rank_are_refused(h, jacobian, message):
    with pytest.raises(InputError, match=message):
        dirichlet.dirichlet(Z, h, jacobian)
