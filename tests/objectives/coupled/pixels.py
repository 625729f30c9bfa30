"""An objective without a loss, whose latents are its pixels, so that logits can be given."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from socialjepa_jax.models.patch_net import PatchNetConfig
from tests.objectives.coupled.frames import NET

C = 4  # classes
HEAD = {"kernel": np.eye(4, C, dtype="f4"), "bias": np.zeros(C, "f4")}


@dataclass(frozen=True)
class Pixels:
    """Latents are the pixels of an image, by default four, times a parameter."""

    kind: str = "pixels"
    encoder: PatchNetConfig = PatchNetConfig(
        image_size=2, channels=1, patches=(2,), widths=(5,), hidden=6
    )

    def init(self, key):
        return {"scale": jnp.ones(())}, {}

    def loss(self, params, aux, batch, key, hparams, reduce):
        return jnp.zeros(()), (aux, {})

    def after_update(self, params, aux, step, hparams):
        return aux

    def encode(self, params, aux, images):
        return {"latent": params["scale"] * images.reshape(len(images), -1)}


WIDE = Pixels(encoder=NET)  # on the images of `frames`


def shown(latents, index=(0, 1, 2)):
    """A batch whose latents these are."""
    images = jnp.asarray(latents, jnp.float32).reshape(-1, 2, 2, 1)
    return {"image": images, "index": np.asarray(index)}
