"""Trained encoders that are installed with the package, by name.

`sj.load(NAME)` loads them. `python -m experiments.release` made them: it trains the preset of that
name with the preset's seeds. `measured.json` holds its command, versions and measurements.
"""

import pathlib

RELEASED = ("motion_lejepa", "toys_ijepa", "toys_lejepa")
FOLDER = pathlib.Path(__file__).parent
MEASURED = FOLDER / "measured.json"
