"""imagenet_lejepa with a ResNet-50 per agent.

Paper: Social-JEPA A.3; LeJEPA (arXiv:2511.08544), whose figure 8 has a ResNet-50 on ImageNet-100.
Command: python -m socialjepa_jax.train --preset=imagenet_lejepa_resnet50 \
    --config.data.path=imagenet/train --workdir=runs/imagenet_resnet50
Cost: 19.6 hours on one H100 and 7.9 on eight A100, by the scaling model as in imagenet_ijepa: 75.82
GFLOP an image, 2 agents, 250,000 steps of 512. An H100 would take 3,650 images/s.
Expected: not run; no paper has two LeJEPA agents on the views of A.3, with or without R2 of 0.49.
"""

import ml_collections

from configs import imagenet_lejepa
from socialjepa_jax.models.resnet import ResNetConfig
from socialjepa_jax.objectives.lejepa import LeJepa


def get_config(source: str = "folder") -> ml_collections.ConfigDict:
    """Returns LeJEPA with the ResNet-50."""
    objective = LeJepa(encoder=ResNetConfig(dtype="bfloat16"), latent="mean")
    return imagenet_lejepa.lejepa(
        objective, source, "ImageNet, LeJEPA ResNet-50, view A against view B"
    )
