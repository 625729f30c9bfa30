"""Barlow Twins on ImageNet, as published.

Paper: Barlow Twins (arXiv:2103.03230), section 2.2: ResNet-50, LARS of rate 0.2 x batch / 256,
three layers of 8,192, lambda 0.0051.
Command: python -m socialjepa_jax.train --config=configs/recipes/barlow.py \
    --config.data.path=imagenet/train --workdir=runs/barlow
Cost: 65.43 EFLOP: 51.07 GFLOP an image, 625,550 steps of 2,048.
Expected: not run.
"""

import ml_collections

from configs.recipes import on_imagenet
from socialjepa_jax.models.resnet import ResNetConfig
from socialjepa_jax.objectives.barlow import Barlow


def get_config() -> ml_collections.ConfigDict:
    """Returns 1000 epochs of batches of 2,048 images."""
    objective = Barlow(encoder=ResNetConfig(dtype="bfloat16"), latent="mean")
    return on_imagenet(objective, batch_size=2048, epochs=1000, title="ImageNet, Barlow Twins")
