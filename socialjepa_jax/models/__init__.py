"""Networks: encoders, predictors, decoders and patch masks, as Flax NNX modules."""

from socialjepa_jax.models.cnn import CNN, CNNConfig
from socialjepa_jax.models.coupling import Coupling, CouplingConfig
from socialjepa_jax.models.mlp import MLP, MLPConfig, Projector
from socialjepa_jax.models.resnet import ResNet, ResNetConfig
from socialjepa_jax.models.vit import ViT, ViTConfig

__all__ = [
    "CNN",
    "MLP",
    "CNNConfig",
    "Coupling",
    "CouplingConfig",
    "MLPConfig",
    "Projector",
    "ResNet",
    "ResNetConfig",
    "ViT",
    "ViTConfig",
]
