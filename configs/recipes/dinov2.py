"""DINOv2 on ImageNet, as published.

Paper: DINOv2 (arXiv:2304.07193), the short recipe of its published code: ViT-L/16, 2 + 8 crops,
65,536 outputs, rate 4e-3 x root of batch / 1024.
Command: python -m socialjepa_jax.train --config=configs/recipes/dinov2.py \
    --config.data.path=imagenet/train --workdir=runs/dinov2
Cost: 204.99 EFLOP: 1600.22 GFLOP an image, 62,550 steps of 2,048.
Expected: not run.
"""

import ml_collections

from configs.recipes import on_imagenet
from socialjepa_jax.models.vit import SIZES, ViTConfig
from socialjepa_jax.objectives.dinov2 import DinoV2


def get_config() -> ml_collections.ConfigDict:
    """Returns 100 epochs of batches of 2,048 images."""
    objective = DinoV2(encoder=ViTConfig(dtype="bfloat16", **SIZES["L"]))
    return on_imagenet(objective, batch_size=2048, epochs=100, title="ImageNet, DINOv2")
