"""iBOT on ImageNet, as published.

Paper: iBOT (arXiv:2111.07832), its published code, for 100 epochs instead of 800: ViT-S/16, 2 + 10
crops, 8,192 outputs in a shared head.
Command: python -m socialjepa_jax.train --config=configs/recipes/ibot.py \
    --config.data.path=imagenet/train --workdir=runs/ibot
Cost: 18.71 EFLOP: 146.08 GFLOP an image, 125,100 steps of 1,024.
Expected: not run.
"""

import ml_collections

from configs.recipes import on_imagenet
from socialjepa_jax.models.vit import SIZES, ViTConfig
from socialjepa_jax.objectives.ibot import IBot


def get_config() -> ml_collections.ConfigDict:
    """Returns 100 epochs of batches of 1,024 images."""
    objective = IBot(encoder=ViTConfig(dtype="bfloat16", **SIZES["S"]))
    return on_imagenet(objective, batch_size=1024, epochs=100, title="ImageNet, iBOT")
