import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import InputError
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.vicreg import VicReg
from socialjepa_jax.sharding import Reduce

VIT = ViTConfig(image_size=8, patch_size=4, channels=1, width=8, depth=1, heads=2)
CROP = Augment(crop_scale=(0.3, 1.0))
PAIR = MultiCrop(local_views=0, view_a=CROP, view_b=CROP)
COMMON = {"encoder": VIT, "projector_layers": 1, "projector_dim": 4, "views": PAIR}


def _hinge(z, covariance_weight=1.0):
    """The published loss, term by term: 25 invariance + 25 variance + 1 covariance."""
    total = 25 * np.square(z[:, 0] - z[:, 1]).mean()
    for view in (z[:, 0], z[:, 1]):
        covariance = np.cov(view.T)
        total += 25 * np.maximum(0, 1 - np.sqrt(view.var(0, ddof=1) + 1e-4)).mean() / 2
        off_diagonal = np.square(covariance - np.diag(np.diag(covariance))).sum() / z.shape[-1]
        total += covariance_weight * off_diagonal
    return total


def _whiten(z):
    deviation = np.cov(z.reshape(-1, z.shape[-1]).T) - np.eye(z.shape[-1])
    return 0.9 * np.square(z[:, 0] - z[:, 1]).sum(-1).mean() + 0.1 * np.square(deviation).sum()


@pytest.mark.parametrize(
    ("form", "hparams", "expected"),
    [
        ("hinge", {}, _hinge),
        ("hinge", {"lambda": 7.0}, lambda z: _hinge(z, 7.0)),
        ("whiten", {"lambda": 0.1}, _whiten),
    ],
)
def test_loss_against_float64(form, hparams, expected):
    objective = VicReg(**COMMON, form=form)
    params, aux = jax.jit(objective.init)(jax.random.key(0))
    images = jax.random.uniform(jax.random.key(1), (12, 8, 8, 1))
    batch = {"image": images, "index": jnp.arange(12), "mean": jnp.zeros(1), "std": jnp.ones(1)}
    (views,) = jax.jit(objective.views)(batch, jax.random.key(2))
    embed = jax.jit(objective.embed)
    z = np.stack([embed(params, views[:, v])[0].projection for v in range(2)], axis=1)
    loss, _ = jax.jit(objective.loss, static_argnums=5)(
        params, aux, batch, jax.random.key(2), hparams, Reduce()
    )
    np.testing.assert_allclose(loss, expected(z.astype(np.float64)), rtol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"form": "l1"}, "form='l1'"),
        ({"variance": -1.0}, "variance=-1.0"),
        ({"weight": 2.0}, "weight=2.0"),
        ({"views": MultiCrop(local_size=4)}, "local_views=6 must be 2 and 0"),
        ({"views": MultiCrop(global_views=3, local_views=0)}, "global_views=3"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        VicReg(**(COMMON | fields))
