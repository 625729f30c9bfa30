"""One picture, two views: two I-JEPA agents on ImageNet that see it through two augmentations.

The protocol of Social-JEPA A.3. Camera 0 is view A (crops of 20-100 %, flips, colour jitter, grey),
camera 1 is view B (the same with blur and solarisation). Each agent trains on fresh draws of its
own camera alone; the map between them is fitted and measured on one fixed draw of each camera for
every picture, split by picture. Images are resized to squares of 224 pixels before the crops.

The images lie in class folders, or elsewhere: `--preset=imagenet_ijepa:tfds` reads what
tensorflow-datasets prepared, `:shards` ArrayRecord, Parquet or tar files (the two of ImageNet).
`:small` is the protocol on any class folders at 64 pixels, for minutes on two CPU cores.
ViT-B/16: --config.objective.vit.width=768 --config.objective.vit.heads=12.

Paper: Social-JEPA, A.1-A.3 and Table 3: ViT-S/16, AdamW (0.9, 0.95), peak 1.5e-4, weight decay
0.05, clip 1.0, 10 of 300 epochs of warm-up, batch 1,024, 4 target blocks of 7x7.
Command: python -m socialjepa_jax.train --preset=imagenet_ijepa \
    --config.data.path=imagenet/train --workdir=runs/imagenet
Cost: 15.2 hours on one H100 and 6.1 on eight A100 (ViT-B/16: 56.1 and 22.5), by the scaling model:
19.47 GFLOP an image, 2 agents, 375,000 steps of 1,024, at 0.35 of the peak of products, input,
evaluations and checkpoints not counted. An H100 would take 14,200 images/s.
Expected: not run; the paper has R2 0.873, DSC 0.846 and NOS@10 0.31 in its Table 1, R2 0.489, DSC
0.584 and NOS@10 0.033 in its Table 2.
"""

import dataclasses

import ml_collections

from socialjepa_jax.config import Agents, Experiment, Run, to_config_dict
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.base import Splits
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.data.protocols import Data
from socialjepa_jax.data.records.reading import ONE_CAMERA
from socialjepa_jax.data.records.shards import ShardsData
from socialjepa_jax.data.records.tfds import TfdsData
from socialjepa_jax.data.records.views import TwoViews
from socialjepa_jax.errors import check_one_of
from socialjepa_jax.models.vit import SIZES, ViTConfig
from socialjepa_jax.objectives.base import Objective
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.optim import AdamW

SOURCES = ("folder", "tfds", "shards")
LOGGED = 50  # steps between lines of the log


def pictures(source: str) -> Data:
    """Returns ImageNet's training images as two cameras see them.

    Args:
        source: which holds them, one of `SOURCES`.

    Raises:
        InputError: there is no such source.
    """
    check_one_of(SOURCES, source=source)
    fields = {
        "image_size": 224,
        "protocol": ONE_CAMERA,
        "splits": Splits(test_instances=10, test_states=0.01),
        "read": "stream",
        "workers": 16,
        "views": TwoViews(on=True),
    }
    if source == "tfds":
        return TfdsData(path="tensorflow_datasets", name="imagenet2012", **fields)
    if source == "shards":
        return ShardsData(path="imagenet", files="*train*", **fields)
    return FolderData(path="imagenet/train", **fields)


def two_agents(
    data: Data, objective: Objective, *, title: str, batch_size: int, steps: int, optim: AdamW
) -> ml_collections.ConfigDict:
    """Returns two agents, one for each view.

    Args:
        data: as two cameras see them.
        objective: on images of their size.
        title: of the run.
        batch_size: of a step and agent, of all devices.
        steps: a multiple of 50.
        optim: the optimiser.
    """
    return to_config_dict(
        Experiment(
            name=title,
            data=data,
            objective=objective,
            augment=Augment(),
            agents=Agents(cameras=(0, 1), seeds=(0, 1)),
            optim=optim,
            run=Run(
                steps=steps,
                batch_size=batch_size,
                steps_per_call=1,  # the images of several would be read ahead
                log_every=LOGGED,
                eval_every=steps // 10,
                save_every=steps // 10,
            ),
        )
    )


def small() -> ml_collections.ConfigDict:
    """Returns the protocol on photographs of 64 pixels, with the encoder of toys_ijepa."""
    objective = IJepa(
        vit=ViTConfig(image_size=64, patch_size=8, width=64, depth=4, heads=4),
        predictor="mlp_patch",
        mlp_width=256,
        target_norm="layernorm",
        latent_encoder="target",
    )
    data = dataclasses.replace(
        pictures("folder"),
        image_size=64,
        read="resident",
        splits=Splits(test_instances=20, test_states=0.2),
    )
    title, steps = "Photographs of 64 pixels, I-JEPA, view A against view B", 300
    optim = AdamW(learning_rate=1e-3)
    config = two_agents(data, objective, title=title, batch_size=64, steps=steps, optim=optim)
    config.run.steps_per_call = LOGGED // 2
    config.run.eval_every = config.run.save_every = steps
    return config


def get_config(source: str = "folder") -> ml_collections.ConfigDict:
    """Returns 300 epochs with the ViT-S/16; "small": `small`."""
    check_one_of((*SOURCES, "small"), source=source)
    if source == "small":
        return small()
    return two_agents(
        pictures(source),
        IJepa(vit=ViTConfig(dtype="bfloat16", **SIZES["S"]), predictor="mlp_patch", mlp_width=2048),
        title="ImageNet, I-JEPA ViT-S/16, view A against view B",
        batch_size=1024,
        steps=375_000,
        optim=AdamW(
            learning_rate=1.5e-4,
            warmup_fraction=10 / 300,
            weight_decay=0.05,
            final_weight_decay=0.05,
        ),
    )
