"""What a teacher saves a student on still pictures: the toys, and photographs of ETH-80.

`table9` on pictures, with I-JEPA, the small encoder of `rivals_toys` and a logistic probe of the
category on held-out objects as the score. The student's images are random crops; the teacher sees
the crop of its own camera, and in "W, latents kept" the whole image, once for every state. Methods
are tuned on toys of another seed, those of ETH-80 too.

Predictions, written before the runs: those of `table9`, but that a teacher saves less, a ratio of
0.5 to 1.1, since on still pictures training adds little to what an untrained encoder tells.

Command: python -m experiments.reproduce --only=table9_toys[,table9_eth80 --eth80=FILE] --out=DIR
Cost at --scale=cpu: 19 methods of 5 CPU minutes, 95 CPU minutes for each; finished methods are
kept.
Expected at --scale=cpu: 0 of 0 claims, not run yet.
"""

import pathlib

from experiments.collaboration import scenes, table9
from experiments.findings import Finding
from socialjepa_jax.errors import InputError


def toys(scale: str, out: pathlib.Path) -> Finding:
    """Tunes and measures every method on the toys."""
    title = "A second agent on still toys: what a teacher saves"
    return table9.found(scenes.TOYS, title, scale, out)


def eth80(scale: str, out: pathlib.Path, eth80: str | None = None) -> Finding:
    """Measures every method on photographs, tuned on the toys.

    Raises:
        InputError: no file was given.
    """
    if eth80 is None:
        raise InputError("table9_eth80 needs --eth80=FILE, see configs/eth80_ijepa.py")
    title = "A second agent on photographs: what a teacher saves"
    return table9.found(scenes.photographs(eth80), title, scale, out)
