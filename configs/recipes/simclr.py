"""SimCLR on ImageNet, as published.

Paper: SimCLR (arXiv:2002.05709), section 2 and its published code: ResNet-50, LARS of rate 0.3 x
batch / 256, temperature 0.1, a head of three layers.
Command: python -m socialjepa_jax.train --config=configs/recipes/simclr.py \
    --config.data.path=imagenet/train --workdir=runs/simclr
Cost: 6.23 EFLOP: 48.69 GFLOP an image, 31,250 steps of 4,096.
Expected: not run.
"""

import ml_collections

from configs.recipes import on_imagenet
from socialjepa_jax.models.resnet import ResNetConfig
from socialjepa_jax.objectives.simclr import SimClr


def get_config() -> ml_collections.ConfigDict:
    """Returns 100 epochs of batches of 4,096 images."""
    objective = SimClr(encoder=ResNetConfig(dtype="bfloat16"), latent="mean")
    return on_imagenet(objective, batch_size=4096, epochs=100, title="ImageNet, SimCLR")
