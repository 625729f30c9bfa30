"""What a teacher saves a student on still pictures: the toys, and photographs of ETH-80.

`table9` on pictures, with I-JEPA, the small encoder of `rivals_toys` and a logistic probe of the
category on held-out objects as the score. The student's images are random crops; the teacher sees
the crop of its own camera, and in "W, latents kept" the whole image, once for every state. Methods
are tuned on toys of another seed, those of ETH-80 too.

Pictures have categories, so four more methods read the labels of training states: Hinton's
distillation (T = 4) from a logistic head on the teacher's latents, with hard labels, beside the
student's own loss and without it; the same without the teacher, which tells what of it labels do;
and deep mutual learning of two models. Held-out objects keep their labels to themselves.

Predictions, written before the runs: those of `table9`, but that a teacher saves less, a ratio of
0.5 to 1.1, since on still pictures training adds little to what an untrained encoder tells.
Distillation with labels arrives, for less than W; without the student's own loss for less still.
Labels without a teacher cost at most 0.1 more than distillation: it is they that help, not the
teacher. Mutual learning with labels costs at least 0.9 of two models with labels alone.

Command: python -m experiments.reproduce --only=table9_toys[,table9_eth80 --eth80=FILE] --out=DIR
Cost at --scale=cpu: 23 methods of 5 CPU minutes, 115 CPU minutes for each, one method a core;
finished methods are kept.
Expected at --scale=cpu: 0 of 0 claims, not run yet.
"""

import dataclasses
import pathlib

from experiments.collaboration import runs, scenes, table9
from experiments.collaboration.scenes import Scene
from experiments.findings import Claim, Finding, Rows
from socialjepa_jax.collaboration import costs
from socialjepa_jax.errors import InputError

DISTILLED, LABELS = "distillation, labels", "labels without a teacher"
NO_OWN, PEERS = "distillation, labels, no own loss", "mutual learning, labels"
OF_TWO = 0.9  # predicted of two models that learn from each other, over two models apart


def toys(scale: str, out: pathlib.Path) -> Finding:
    """Tunes and measures every method on the toys."""
    title = "A second agent on still toys: what a teacher saves"
    return _found(scenes.TOYS, title, scale, out)


def eth80(scale: str, out: pathlib.Path, eth80: str | None = None) -> Finding:
    """Measures every method on photographs, tuned on the toys.

    Raises:
        InputError: no file was given.
    """
    if eth80 is None:
        raise InputError("table9_eth80 needs --eth80=FILE, see configs/eth80_ijepa.py")
    title = "A second agent on photographs: what a teacher saves"
    return _found(scenes.photographs(eth80), title, scale, out)


def _found(scene: Scene, title: str, scale: str, out: pathlib.Path) -> Finding:
    runs.all_at_once(scene, scale, out)
    found = table9.found(scene, title, scale, out)
    return dataclasses.replace(found, claims=[*found.claims, *label_claims(found.rows)])


def label_claims(rows: Rows) -> list[Claim]:
    """Judges the predictions on labels."""
    more = table9.ratio(rows, LABELS).mean - table9.ratio(rows, DISTILLED).mean
    two = over_two(rows)
    return [
        table9.cheaper_claim(rows, DISTILLED),
        table9.cheaper_claim(rows, NO_OWN, DISTILLED),
        Claim(f"{LABELS}/as good as distillation", f"costs at most {table9.NEAR} more", more,
              more <= table9.NEAR, table9.told(rows, LABELS, DISTILLED)),
        Claim(f"{PEERS}/cost of two models", f"at least {OF_TWO} of two with labels alone",
              two.mean, two.mean >= OF_TWO,
              f"{two.mean:.2f} of two models with labels alone ({two.low:.2f} to {two.high:.2f}), "
              f"{two.reached:.0%} of the first members arrive."),
    ]  # fmt: skip


def over_two(rows: Rows) -> costs.Spent:
    """Returns the cost of mutual learning over that of two models with labels alone."""
    level = table9.threshold(rows)
    peers, alone = (table9.curves(rows, name) for name in (PEERS, LABELS))
    limits = (peers.limit, 2 * alone.limit)
    return costs.relative(peers.crossings(level), 2 * alone.crossings(level), limits)
