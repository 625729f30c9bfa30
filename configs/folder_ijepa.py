"""Photographs in files of one's own, read by other processes when a step needs them.

Protocol: rig, as eth80_ijepa: two cameras 180 degrees apart, of which neither sees a picture of the
other.
Command: python -m socialjepa_jax.train --config=configs/folder_ijepa.py \
    --config.data.path=photographs --workdir=runs/folder
The folder holds JPEG or PNG files and `factors.csv` with the columns file, category, instance,
polar and azimuth; other names are set by config.data.table and config.data.columns. An empty
config.data.table reads class folders instead (one camera, config.data.protocol.kind=norb).
--config.data.read=resident keeps all pictures on the devices; losses are the same, step for step.
Cost: that of eth80_ijepa while as many processes read as the message about the host asks for.
Expected: as eth80_ijepa on the same photographs.
"""

import ml_collections

from configs import eth80_ijepa
from socialjepa_jax.config import to_plain
from socialjepa_jax.data.base import Protocol, Splits
from socialjepa_jax.data.folder import FolderData


def get_config() -> ml_collections.ConfigDict:
    """The settings of eth80_ijepa on files."""
    config = eth80_ijepa.get_config()
    config.name = "Files, I-JEPA, opposite half circles"
    config.data = to_plain(
        FolderData(
            path="data/photographs",
            table="factors.csv",
            columns=(
                ("category", "category"),
                ("instance", "instance"),
                ("elevation", "polar"),
                ("azimuth", "azimuth"),
            ),
            image_size=config.data.image_size,
            protocol=Protocol("rig", azimuths=(0, 180), sector=(0, 180)),
            splits=Splits(test_instances=2, test_states=0.2, seed=0),
            read="stream",
        )
    )
    return config
