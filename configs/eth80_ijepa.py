"""ETH-80: photographs of 80 objects on a viewing sphere, seen by two cameras 180 degrees apart.

Protocol: rig. The pose azimuth belongs to the state and lies in one half circle, so the two
cameras never see the same picture (overlap 0).
Command: python -m socialjepa_jax.train --config=configs/eth80_ijepa.py \
    --config.data.path=eth80_96.npz --workdir=runs/eth80
The file holds `jpeg` (the files one after the other), `offset`, `category`, `instance`, `polar`,
`azimuth` and `category_names`; other names are set by config.data.columns and its neighbours.
Cost: about six minutes on two CPU cores.
Expected: see the honest table in BUILD_NOTES.md. No setting was chosen on these photographs.
"""

import ml_collections

from configs import toys_ijepa
from socialjepa_jax.config import to_plain
from socialjepa_jax.data.arrays import ArraysData
from socialjepa_jax.data.base import Protocol, Splits


def photographs(path: str, image_size: int, protocol: Protocol, splits: Splits) -> ArraysData:
    """The file described above."""
    return ArraysData(
        path=path,
        columns=(
            ("category", "category"),
            ("instance", "instance"),
            ("elevation", "polar"),
            ("azimuth", "azimuth"),
        ),
        images="jpeg",
        offsets="offset",
        label_names="category_names",
        image_size=image_size,
        channels=3,
        protocol=protocol,
        splits=splits,
    )


def get_config() -> ml_collections.ConfigDict:
    """The settings of toys_ijepa on photographs, in colour."""
    config = toys_ijepa.get_config()
    config.name = "ETH-80, I-JEPA, opposite half circles"
    size = config.data.image_size
    config.data = to_plain(
        photographs(
            "data/eth80_96.npz",
            size,
            Protocol("rig", azimuths=(0, 180), sector=(0, 180)),
            Splits(test_instances=2, test_states=0.2, seed=0),
        )
    )
    config.objective.vit.channels = 3
    config.augment.flip = False  # a mirrored pose is another pose
    return config
