"""Sizes of the problems that the GPU suite measures."""

import dataclasses

from configs import motion_conv, motion_vits, smoke
from experiments.bench import sigreg
from experiments.bench.steps import Effort
from socialjepa_jax.config import Experiment, from_config_dict
from socialjepa_jax.models.vit import ViTConfig

IN_MOTION = {"motion_conv": motion_conv, "motion_vits": motion_vits}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of every section's problem.

    Attributes:
        vit: the encoder.
        local: pixels of LeJEPA's small views.
        projector: width of its projector.
        decoder: width, depth and heads of the masked autoencoder's decoder.
        ijepa, lejepa, mae: batch sizes of the steps.
        batch: batch size of the paired comparisons.
        tokens: sequence lengths of the attention table.
        sigreg: (samples, features, slices).
        images, image_size: number and pixels of the rendered images.
        motion: experiments in worlds in motion by name.
        sweep: (runs, steps of a call).
        distances: latents whose distances are compared.
        rows: latents of the ridge map and of the moments.
        features: features of the latents.
        moment_features: features of the latents whose moments are taken on the device.
        effort: length of a measurement.
    """

    vit: ViTConfig = ViTConfig(dtype="bfloat16")
    local: int = 96
    projector: int = 2048
    decoder: tuple[int, int, int] = (512, 8, 16)
    ijepa: tuple[int, ...] = (512, 1024, 2048)
    lejepa: tuple[int, ...] = (128, 256)  # 512 would need 75 GB
    mae: tuple[int, ...] = (256, 512, 1024)  # and 2048 115 GB
    batch: int = 512
    tokens: tuple[int, ...] = (37, 79, 197)
    sigreg: tuple[tuple[int, int, int], ...] = sigreg.SHAPES
    images: int = 4096
    image_size: int = 96
    motion: tuple[tuple[str, Experiment], ...] = tuple(
        (name, from_config_dict(config.get_config())) for name, config in IN_MOTION.items()
    )
    sweep: tuple[int, int] = (189, 200)
    distances: int = 50_000
    rows: int = 1_000_000
    features: int = 384
    moment_features: int = 1024
    effort: Effort = Effort()


GPU = Sizes()
REHEARSAL = Sizes(
    vit=ViTConfig(image_size=16, patch_size=4, width=16, depth=1, heads=1, dtype="bfloat16"),
    local=8,
    projector=16,
    decoder=(16, 1, 1),
    ijepa=(4, 8),
    lejepa=(4,),
    mae=(4, 8),
    batch=4,
    tokens=(5, 17),
    sigreg=((64, 8, 16),),
    images=4,
    image_size=8,
    motion=tuple(
        (name, from_config_dict(smoke.shrink(config.get_config())))
        for name, config in IN_MOTION.items()
    ),
    sweep=(2, 2),
    distances=60,
    rows=100,
    features=4,
    moment_features=4,
    effort=Effort(calls=1, windows=1),
)


class MissingPart(Exception):
    """A section needs a library or an objective that does not exist here."""
