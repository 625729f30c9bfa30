"""The user's own image files, read by worker processes when a step needs them.

The protocol is that of eth80_ijepa. The folder holds JPEG or PNG files and `factors.csv` with the
columns file, category, instance, polar and azimuth; config.data.table and config.data.columns set
other names. An empty config.data.table reads class folders instead (one camera,
config.data.protocol.kind=norb). --config.data.read=resident keeps all images on the devices.

Paper: Social-JEPA, sections 3-4, on other photographs than the paper's.
Command: python -m socialjepa_jax.train --config=configs/folder_ijepa.py \
    --config.data.path=photographs --workdir=runs/folder
Cost: about six minutes on two CPU cores for the images of ETH-80, if config.data.workers is as
large as the run's message about the host asks for.
Expected: not run to its end. On the images of eth80_ijepa the same numbers: of 24 losses of
streamed and resident runs none differs.
"""

import ml_collections

from configs import eth80_ijepa
from socialjepa_jax.config import to_plain
from socialjepa_jax.data.folder import FolderData


def get_config() -> ml_collections.ConfigDict:
    """Returns the settings of eth80_ijepa on files."""
    config = eth80_ijepa.get_config()
    config.name = "Files, I-JEPA, opposite half circles"
    config.data = to_plain(
        FolderData(
            path="data/photographs",
            table="factors.csv",
            columns=eth80_ijepa.COLUMNS,
            image_size=config.data.image_size,
            protocol=eth80_ijepa.PROTOCOL,
            splits=eth80_ijepa.SPLITS,
            read="stream",
        )
    )
    return config
