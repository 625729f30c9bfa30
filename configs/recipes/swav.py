"""SwAV on ImageNet, as published.

Paper: SwAV (arXiv:2006.09882), appendix A: ResNet-50, 2 + 6 crops, 3,000 prototypes, LARC of rate
4.8.
Command: python -m socialjepa_jax.train --config=configs/recipes/swav.py \
    --config.data.path=imagenet/train --workdir=runs/swav
Cost: 38.76 EFLOP: 75.64 GFLOP an image, 125,100 steps of 4,096.
Expected: not run.
"""

import ml_collections

from configs.recipes import on_imagenet
from socialjepa_jax.models.resnet import ResNetConfig
from socialjepa_jax.objectives.swav import SwAV


def get_config() -> ml_collections.ConfigDict:
    """Returns 400 epochs of batches of 4,096 images."""
    objective = SwAV(encoder=ResNetConfig(dtype="bfloat16"), latent="mean")
    return on_imagenet(objective, batch_size=4096, epochs=400, title="ImageNet, SwAV")
