"""Published recipes of the objectives on ImageNet, a file each, with all of their defaults.

The images are class folders, read as they are needed and resized to squares of 224 pixels before
they are cropped, where the papers crop the full image: `--config.data.path=imagenet/train`. Batches
are those of the papers; a smaller `--config.run.batch_size` needs another rate, which is
`OBJECTIVES[kind].optimizer(batch_size)`.
"""

import ml_collections

from socialjepa_jax.config import Agents, Experiment, Run, to_config_dict
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.base import Protocol, Splits
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.base import Objective

IMAGES = 1_281_167  # of ImageNet's training set
LOGGED = 50  # steps between lines of the log


def on_imagenet(
    objective: Objective, *, batch_size: int, epochs: int, title: str
) -> ml_collections.ConfigDict:
    """Returns one agent that trains on ImageNet by the objective's published optimiser.

    Args:
        objective: on images of 224 pixels.
        batch_size: of a step, of all devices.
        epochs: over all images.
        title: of the run.
    """

    def whole(steps: int) -> int:
        return steps - steps % LOGGED

    steps = whole(epochs * IMAGES // batch_size)
    return to_config_dict(
        Experiment(
            name=title,
            data=FolderData(
                path="imagenet/train",
                image_size=224,
                protocol=Protocol("norb", azimuths=(0,)),
                splits=Splits(test_instances=10, test_states=0.01),
                read="stream",
                workers=16,
            ),
            objective=objective,
            augment=Augment(),
            agents=Agents(cameras=(0,), seeds=(0,)),
            optim=OBJECTIVES[objective.kind].optimizer(batch_size),
            run=Run(
                steps=steps,
                batch_size=batch_size,
                steps_per_call=1,  # the images of several would be read ahead
                log_every=LOGGED,
                eval_every=whole(steps // 10),
                save_every=whole(steps // 50),
            ),
        )
    )
