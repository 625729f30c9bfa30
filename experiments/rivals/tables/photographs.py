"""Table 1 of Social-JEPA on photographs: the methods of `paradigms` on ETH-80 in luma.

The settings are those that the toys chose, so nothing is tuned on photographs; held-out objects,
steps, seeds and measures are those of the toys.

Predictions, written before the run with the toys' table known:

order: the order of the methods by area is that of the toys (Spearman's above .7).
swav: SwAV is among the first three.
gain: training adds to the area of at least 8 methods.
pixels: pixels keep more shared directions than every method.

Command: python -m experiments.reproduce --only=table1_eth80 --eth80=eth80_96.npz \
    --out=runs/table1_paradigms
Cost at --scale=cpu: 75 CPU minutes after table1_paradigms in the same folder, whose trials it
reads.
Expected at --scale=cpu: 2 of 4 claims agree. By area MoCo v3 is first (.341), then SwAV and I-JEPA;
the order has a rank correlation of .40 with that of the toys, and training adds to 7 areas.
"""

import pathlib

from experiments.findings import Claim, Finding, Rows
from experiments.rivals.methods import PIXELS
from experiments.rivals.tables import paradigms
from experiments.rivals.tables.entrants import RIVALS
from experiments.rivals.tables.reading import gain, mean, spearman
from socialjepa_jax.errors import InputError
from socialjepa_jax.records import RowName

NAME = "table1_eth80"
FIRST, GAINS, ORDER = 3, 8, 0.7  # of the predictions


def run(scale: str, out: pathlib.Path, eth80: str | None = None) -> Finding:
    """Trains and measures every method on photographs, or reads what an earlier call left in `out`.

    Writes `table1_eth80.html`, the methods as one sortable page.

    Args:
        scale, out: of the run.
        eth80: file of photographs, see `configs/eth80_ijepa.py`.

    Raises:
        InputError: there is no file.
    """
    if eth80 is None:
        raise InputError(f"{NAME} needs --eth80=FILE, see configs/eth80_ijepa.py")
    toys = paradigms.measured(scale, out)
    rows = paradigms.measured(scale, out, eth80)
    return paradigms.finding(scale, out / f"{NAME}.html", "ETH-80", rows, claims(rows, toys))


def claims(rows: Rows, toys: Rows) -> list[Claim]:
    """The predictions of the module's head.

    Args:
        rows: of all methods on photographs.
        toys: the same on toys.
    """
    area = {name: mean(rows, name, "area") for name in RIVALS}
    ranked = sorted(area, key=lambda name: -area[name])
    order = spearman(area, {name: mean(toys, name, "area") for name in RIVALS})
    gained = [name for name in RIVALS if gain(rows, name, "area").low > 0]
    directions = {name: mean(rows, name, "dimensions") for name in RIVALS}
    most = max(directions, key=directions.__getitem__)
    pixels = mean(rows, PIXELS, "dimensions", RowName.PIXEL_PCA)
    place = ranked.index("swav") + 1
    return [
        Claim("order", f"Spearman's above {ORDER:g}", order, order > ORDER,
              f"area on photographs and on toys, over {len(RIVALS)} methods; by area the first are "
              f"{', '.join(ranked[:FIRST])}."),
        Claim("swav", f"among the first {FIRST}", float(place), place <= FIRST,
              f"the place of SwAV by area, {area['swav']:.3f}; the first is {ranked[0]}."),
        Claim("gain", f"training adds to the area of at least {GAINS}", float(len(gained)),
              len(gained) >= GAINS,
              f"whose interval lies above 0: {', '.join(gained) or 'none'}."),
        Claim("pixels", "more shared directions than every method", pixels - directions[most],
              pixels > directions[most],
              f"pixels have {pixels:.1f}, {most} has {directions[most]:.1f}, the most."),
    ]  # fmt: skip
