"""ETH-80: photographs of 80 objects on a viewing sphere, seen by two cameras 180 degrees apart.

The protocol is "rig": the pose azimuth belongs to the state and lies in one half circle, so the
cameras never see the same image (overlap 0). The file holds `jpeg` (concatenated JPEG files),
`offset`, `category`, `instance`, `polar`, `azimuth` and `category_names`; config.data.columns,
images, offsets and label_names set other names.

Paper: Social-JEPA, sections 3-4, on other photographs than the paper's.
Command: python -m socialjepa_jax.train --config=configs/eth80_ijepa.py \
    --config.data.path=eth80_96.npz --workdir=runs/eth80
Cost: about six minutes on two CPU cores.
Expected: not run to its end. With patches of 6 and 2,000 steps (three seeds, held-out objects):
R2 0.815 [0.74, 0.89] between the cameras (moving average 0.830), untrained 0.823, pixel PCA 0.727;
13.7 shared dimensions, untrained 8.6, pixel PCA 25.2; NOS@10 0.43, untrained 0.62. No setting was
chosen on these photographs.
"""

import ml_collections

from configs import toys_ijepa
from socialjepa_jax.config import to_plain
from socialjepa_jax.data.arrays import ArraysData
from socialjepa_jax.data.base import Protocol, Splits

PROTOCOL = Protocol("rig", azimuths=(0, 180), sector=(0, 180))
SPLITS = Splits(test_instances=2, test_states=0.2, seed=0)
COLUMNS = (
    ("category", "category"),
    ("instance", "instance"),
    ("elevation", "polar"),
    ("azimuth", "azimuth"),
)


def photographs(path: str, image_size: int, protocol: Protocol, splits: Splits) -> ArraysData:
    """Returns the dataset of the file that the module's head describes."""
    return ArraysData(
        path=path,
        columns=COLUMNS,
        images="jpeg",
        offsets="offset",
        label_names="category_names",
        image_size=image_size,
        channels=3,
        protocol=protocol,
        splits=splits,
    )


def get_config() -> ml_collections.ConfigDict:
    """Returns the settings of toys_ijepa on photographs, in colour."""
    config = toys_ijepa.get_config()
    config.name = "ETH-80, I-JEPA, opposite half circles"
    size = config.data.image_size
    config.data = to_plain(photographs("data/eth80_96.npz", size, PROTOCOL, SPLITS))
    config.objective.vit.channels = 3
    config.augment.flip = False  # a mirrored image shows another pose
    return config
