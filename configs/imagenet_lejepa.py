"""The two views of imagenet_ijepa, with a LeJEPA per agent: a ViT-S/16 and multi-crop.

What an agent's camera shows is its picture; LeJEPA's 2 large and 6 small crops, with their colours,
are views of that picture, as they are of any other. Small crops are 5-30 % of a crop of 20-100 %.

The images lie in class folders, or elsewhere: see imagenet_ijepa.
ViT-B/16: --config.objective.encoder.width=768 --config.objective.encoder.heads=12.

Paper: Social-JEPA A.3; LeJEPA (arXiv:2511.08544), section 5: lambda 0.05, 2 global and 6 local
views, 1,024 slices. The rate 5e-4, batch 512 and 100 epochs are ours.
Command: python -m socialjepa_jax.train --preset=imagenet_lejepa \
    --config.data.path=imagenet/train --workdir=runs/imagenet_lejepa
Cost: 21.8 hours on one H100 and 8.7 on eight A100 (ViT-B/16: 83.8 and 33.4), by the scaling model
as in imagenet_ijepa: 84.19 GFLOP an image, 2 agents, 250,000 steps of 512. An H100 would take 3,280
images/s.
Expected: not run; no paper has two LeJEPA agents on the views of A.3, with or without R2 of 0.49.
"""

import ml_collections

from configs import imagenet_ijepa
from socialjepa_jax.models.vit import SIZES, ViTConfig
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.optim import AdamW


def lejepa(objective: LeJepa, source: str, title: str) -> ml_collections.ConfigDict:
    """Returns 100 epochs of batches of 512 images."""
    return imagenet_ijepa.two_agents(
        imagenet_ijepa.pictures(source),
        objective,
        title=title,
        batch_size=512,
        steps=250_000,
        optim=AdamW(learning_rate=5e-4, weight_decay=0.05, final_weight_decay=0.05),
    )


def get_config(source: str = "folder") -> ml_collections.ConfigDict:
    """Returns LeJEPA with the ViT-S/16."""
    objective = LeJepa(encoder=ViTConfig(dtype="bfloat16", **SIZES["S"]))
    return lejepa(objective, source, "ImageNet, LeJEPA ViT-S/16, view A against view B")
