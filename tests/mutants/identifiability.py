"""Changes of worlds whose latents are known, and of what is measured there."""

from tests.mutants.mutant import Mutant

_METRICS = "socialjepa_jax/identifiability/metrics.py"
_CONTROL = "socialjepa_jax/identifiability/control.py"
_PLANNING = "socialjepa_jax/identifiability/planning.py"
_SFA = "socialjepa_jax/identifiability/sfa.py"
_MIXINGS = "socialjepa_jax/identifiability/mixings.py"

_PUBLISHED = (
    "tests/identifiability/metrics_test.py::test_matches_the_published_code",
    "tests/identifiability/metrics_test.py::test_bound_is_never_violated_on_random_quadratic_maps",
)
_LQR = ("tests/identifiability/control_test.py",)
_PLANS = ("tests/identifiability/planning_test.py",)
_SLOW = ("tests/identifiability/sfa_test.py",)
_MIXED = ("tests/identifiability/mixings_test.py::test_matches_the_published_code",)

IDENTIFIABILITY = (
    Mutant(
        "the share beyond degree one forgets rho",
        _METRICS,
        "(2.0 * self.rho * (1.0 - self.rho))",
        "(2.0 * (1.0 - self.rho))",
        _PUBLISHED,
    ),
    Mutant(
        "the bound adds squares",
        _METRICS,
        "(self.epsilon + self.nonlinearity) ** 2",
        "self.epsilon**2 + self.nonlinearity**2",
        _PUBLISHED,
    ),
    Mutant(
        "the alignment gap is of one view",
        _METRICS,
        "loss - 2.0 * (1.0 - rho) * trace",
        "loss - (1.0 - rho) * trace",
        _PUBLISHED,
    ),
    Mutant(
        "the least-squares map has no intercept",
        _METRICS,
        "return a_ED, y_mean - a_ED @ x_mean",
        "return a_ED, y_mean",
        ("tests/identifiability/metrics_test.py::test_r2_is_scikit_learns",),
    ),
    Mutant(
        "the jackknife has the variance of a sample",
        _METRICS,
        ".sum() * (num_blocks - 1) / num_blocks",
        ".sum() / (num_blocks - 1)",
        (
            "tests/identifiability/metrics_test.py::test_jackknife_error_is_the_spread_over_repetitions",
        ),
    ),
    Mutant(
        "noise of a transition is 1 - rho squared",
        _METRICS,
        "(1.0 - rho**2) * eye)",
        "(1.0 - rho) ** 2 * eye)",
        ("tests/identifiability/metrics_test.py::test_recovered_dynamics_of_a_rotated_world",),
    ),
    Mutant(
        "the cost of a rollout runs backwards",
        _CONTROL,
        "linalg.solve_discrete_lyapunov(closed.T, ",
        "linalg.solve_discrete_lyapunov(closed, ",
        _LQR,
    ),
    Mutant(
        "a latent design knows its own costs",
        _CONTROL,
        "system.in_coordinates(m_DD, orthogonal=True)",
        "system.in_coordinates(m_DD)",
        _LQR,
    ),
    Mutant(
        "the deviation of a path is no share of its chord",
        _PLANNING,
        "return across.mean(1) / length",
        "return across.mean(1)",
        _PLANS,
    ),
    Mutant(
        "far entries weigh more than near ones",
        _PLANNING,
        "weight = 1.0 / np.maximum(distance, 1e-12)",
        "weight = np.maximum(distance, 1e-12)",
        _PLANS,
    ),
    Mutant(
        "a goal may be the start",
        _PLANNING,
        "rng.integers(1, num_states, size=num_plans)",
        "rng.integers(num_states, size=num_plans)",
        _PLANS,
    ),
    Mutant(
        "slow features have twice the variance",
        _SFA,
        "/ (2.0 * len(x))",
        "/ len(x)",
        _SLOW,
    ),
    Mutant(
        "the fastest features are taken",
        _SFA,
        "last = slice(None, -num_features - 1, -1)",
        "last = slice(None, num_features)",
        _SLOW,
    ),
    Mutant(
        "a spiral turns by degrees",
        _MIXINGS,
        "return _rotate(z_ND, jnp.pi)",
        "return _rotate(z_ND, 180.0)",
        _MIXED,
    ),
    Mutant(
        "a parabola shears the first coordinate",
        _MIXINGS,
        "jnp.stack([z_ND[:, 0], z_ND[:, 1] + jnp.square(z_ND[:, 0])], 1)",
        "jnp.stack([z_ND[:, 0] + jnp.square(z_ND[:, 1]), z_ND[:, 1]], 1)",
        _MIXED,
    ),
)
