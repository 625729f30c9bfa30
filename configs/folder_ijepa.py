"""The user's own image files, read by worker processes when a step needs them.

The protocol is that of eth80_ijepa. The folder holds JPEG or PNG files and `factors.csv` with the
columns file, category, instance, polar and azimuth; config.data.table and config.data.columns set
other names. --config.data.read=resident keeps all images on the devices.

folder_ijepa.py:cameras reads a folder for each of two cameras instead, left and right, or as
config.data.cameras names them: files of one path below them show the same state.

Paper: Social-JEPA, sections 3-4, on other photographs than the paper's.
Command: python -m socialjepa_jax.train --config=configs/folder_ijepa.py \
    --config.data.path=photographs --workdir=runs/folder
Cost: about six minutes on two CPU cores for the images of ETH-80, if config.data.workers is as
large as the run's message about the host asks for.
Expected: not run to its end. On the images of eth80_ijepa the same numbers: of 24 losses of
streamed and resident runs none differs.
"""

import dataclasses

import ml_collections

from configs import eth80_ijepa
from socialjepa_jax.config import to_plain
from socialjepa_jax.data.base import Splits
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.errors import check_one_of


def get_config(layout: str = "table") -> ml_collections.ConfigDict:
    """Returns the settings of eth80_ijepa on files.

    Args:
        layout: "table": listed in factors.csv | "cameras": a folder for each camera.
    """
    check_one_of(("table", "cameras"), layout=layout)
    config = eth80_ijepa.get_config()
    given = FolderData(path="data/photographs", image_size=config.data.image_size, read="stream")
    if layout == "cameras":
        config.name = "Files of two cameras, I-JEPA"
        held_out = Splits(test_instances=20)  # of single files; of whole objects, fewer
        given = dataclasses.replace(given, cameras=("left", "right"), splits=held_out)
    else:
        config.name = "Files, I-JEPA, opposite half circles"
        given = dataclasses.replace(
            given,
            table="factors.csv",
            columns=eth80_ijepa.COLUMNS,
            protocol=eth80_ijepa.PROTOCOL,
            splits=eth80_ijepa.SPLITS,
        )
    config.data = to_plain(given)
    return config
