"""MoCo v3 on ImageNet, as published.

Paper: MoCo v3 (arXiv:2104.02057), section 4.1: ViT-S/16, AdamW of rate 1.5e-4 x batch / 256, weight
decay 0.1, temperature 0.2, patch embedding frozen.
Command: python -m socialjepa_jax.train --config=configs/recipes/moco.py \
    --config.data.path=imagenet/train --workdir=runs/moco
Cost: 28.31 EFLOP: 73.68 GFLOP an image, 93,800 steps of 4,096.
Expected: not run.
"""

import ml_collections

from configs.recipes import on_imagenet
from socialjepa_jax.models.vit import SIZES, ViTConfig
from socialjepa_jax.objectives.moco import MoCoV3


def get_config() -> ml_collections.ConfigDict:
    """Returns 300 epochs of batches of 4,096 images."""
    objective = MoCoV3(encoder=ViTConfig(dtype="bfloat16", **SIZES["S"]))
    return on_imagenet(objective, batch_size=4096, epochs=300, title="ImageNet, MoCo v3")
