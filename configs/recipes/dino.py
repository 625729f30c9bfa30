"""DINO on ImageNet, as published.

Paper: DINO (arXiv:2104.14294), its published code for 100 epochs: ViT-S/16, 2 + 8 crops, 65,536
outputs, AdamW of rate 5e-4 x batch / 256.
Command: python -m socialjepa_jax.train --config=configs/recipes/dino.py \
    --config.data.path=imagenet/train --workdir=runs/dino
Cost: 14.53 EFLOP: 113.44 GFLOP an image, 250,200 steps of 512.
Expected: not run.
"""

import ml_collections

from configs.recipes import on_imagenet
from socialjepa_jax.models.vit import SIZES, ViTConfig
from socialjepa_jax.objectives.dino import Dino


def get_config() -> ml_collections.ConfigDict:
    """Returns 100 epochs of batches of 512 images."""
    objective = Dino(encoder=ViTConfig(dtype="bfloat16", **SIZES["S"]))
    return on_imagenet(objective, batch_size=512, epochs=100, title="ImageNet, DINO")
