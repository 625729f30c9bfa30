import jax
import numpy as np
import pytest
from scipy import special, stats

from socialjepa_jax.dynamics import langevin
from socialjepa_jax.errors import InputError

NUM = 20_000
# A Kolmogorov-Smirnov distance beyond this has probability 1e-6 under the null.
KS_LIMIT = 2.69 / np.sqrt(NUM)


def test_langevin_of_the_gaussian_is_the_ou_process():
    process = langevin.Langevin(1, substeps=32)
    z, next_z = process.views(process.params(0.7), jax.random.key(3), NUM)
    np.testing.assert_allclose(np.mean(z * next_z), 0.7, atol=5 / np.sqrt(NUM))


def test_goal_seeking_world_is_stationary_and_bimodal():
    process = langevin.GoalSeeking(1, goal=0.9)
    views = process.views(process.params(0.9), jax.random.key(4), NUM)
    spread = np.sqrt(1 - 0.81)

    def law(x):
        return 0.5 * (special.ndtr((x - 0.9) / spread) + special.ndtr((x + 0.9) / spread))

    for view in views:
        assert stats.kstest(np.asarray(view)[:, 0], law).statistic < KS_LIMIT
    assert stats.kstest(np.asarray(views[0])[:, 0], special.ndtr).statistic > KS_LIMIT


def test_blend_goes_from_the_gaussian_world_to_the_other():
    process = langevin.Blend(1)
    key = jax.random.key(5)
    distance = {}
    for share in (0.0, 0.5, 1.0):
        first, _ = process.views(process.params(0.9, share), key, NUM)
        distance[share] = stats.kstest(np.asarray(first)[:, 0], special.ndtr).statistic
    assert distance[0.0] < KS_LIMIT < distance[0.5] < distance[1.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: langevin.Blend(2).params(0.5, 1.5), "share=1.5"),
        (lambda: langevin.GoalSeeking(2, goal=1.0), "goal=1.0"),
    ],
)
def test_refuses_values_out_of_range(call, message):
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        call()
