import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import InputError
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.infonce import InfoNce
from socialjepa_jax.sharding import Reduce

VIT = ViTConfig(image_size=8, patch_size=4, channels=1, width=8, depth=1, heads=2)
CROP = Augment(crop_scale=(0.3, 1.0))
PAIR = MultiCrop(local_views=0, view_a=CROP, view_b=CROP)
COMMON = {"encoder": VIT, "projector_layers": 1, "projector_dim": 4, "views": PAIR}


@pytest.mark.parametrize(
    ("kernel", "factor"), [("code", 2.0), pytest.param("paper", 1.0, marks=pytest.mark.nightly)]
)
def test_loss_against_float64(kernel, factor):
    objective = InfoNce(**COMMON, kernel=kernel, sigma=0.8)
    params, aux = jax.jit(objective.init)(jax.random.key(0))
    images = jax.random.uniform(jax.random.key(1), (12, 8, 8, 1))
    batch = {"image": images, "index": jnp.arange(12), "mean": jnp.zeros(1), "std": jnp.ones(1)}
    (views,) = jax.jit(objective.views)(batch, jax.random.key(2))
    embed = jax.jit(objective.embed)
    u, v = (np.asarray(embed(params, views[:, i])[0].projection, np.float64) for i in (0, 1))
    squares = np.square(u[:, None] - v[None]).sum(-1)
    loss = jax.jit(objective.loss, static_argnums=5)
    for hparams, sigma in [({}, 0.8), ({"sigma": jnp.float32(0.5)}, 0.5)]:
        logits = -squares / (factor * sigma**2)
        cross_entropy = [np.log(np.exp(logits).sum(axis)) - np.diag(logits) for axis in (0, 1)]
        value, _ = loss(params, aux, batch, jax.random.key(2), hparams, Reduce())
        np.testing.assert_allclose(value, np.mean(cross_entropy), rtol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"kernel": "cosine"}, "kernel='cosine'"), ({"sigma": 0.0}, "sigma=0.0")],
)
def test_settings_that_cannot_work_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        InfoNce(**COMMON, **fields)
