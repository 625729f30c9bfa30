"""smallNORB itself, at the paper's scale: ViT-S/16 at 224 pixels, 0 against 160 degrees.

FOLDER holds the six original files smallnorb-5x...-{training,testing}-{dat,cat,info}.mat[.gz].

Paper: Social-JEPA, Table 1 and appendix A.
Command: python -m socialjepa_jax.train --config=configs/smallnorb_ijepa.py \
    --config.data.path=FOLDER --workdir=runs/smallnorb
Cost: 14.3 PFLOP, as toys_ijepa_vits: 20.65 GFLOP per image, 2 agents, 1,350 steps of 256.
Expected: not run to its end; the paper has R2 0.891, DSC 0.872 and NOS@10 0.27.
"""

import ml_collections

from configs import toys_ijepa_vits
from socialjepa_jax.config import to_plain
from socialjepa_jax.data.base import Protocol, Splits
from socialjepa_jax.data.smallnorb import SmallNorbData


def get_config() -> ml_collections.ConfigDict:
    """Returns the settings of toys_ijepa_vits on smallNORB."""
    config = toys_ijepa_vits.get_config()
    config.name = "smallNORB, I-JEPA ViT-S/16, 0 against 160 degrees"
    config.data = to_plain(
        SmallNorbData(
            path="data/smallnorb",
            protocol=Protocol("norb", azimuths=(0, 160)),
            splits=Splits(test_instances=2, test_states=0.2, seed=0),
            image_size=224,
        )
    )
    return config
