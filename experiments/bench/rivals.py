"""Steps of every objective beside I-JEPA's, and losses beside lightly's, on one CPU core.

Steps: a ViT-Ti of 4 blocks on 96 pixels, batch 16, with the crops and heads of
`experiments.rivals.methods`. An image that is forwarded counts three times with a gradient and once
without, a crop by its share of the pixels; the decoders, heads and crops themselves are not
counted, so that a method with many of them looks slow. Losses: value and gradient on embeddings,
ours compiled, lightly's eager (`pip install socialjepa_jax[bench]`; optional), which must agree.
Times are process CPU time on one thread, the least of repeats that alternate.

Command: taskset -c 0 python -m experiments.bench.rivals [--repeats=5] [--out=FILE.json]
Cost: 8 CPU minutes on one core, most of them compilation.
Expected: losses agree with lightly's to 1e-4, at 2.6 (SimCLR), 2.9 (DINO) and 0.67 (SwAV) of its
speed; at an equal count of images no objective is slower than 0.58 of I-JEPA.
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from experiments.bench import results
from experiments.bench import steps as steps_lib
from experiments.bench.results import Result
from experiments.bench.steps import Effort
from experiments.bench.vit import TI, TINY
from experiments.rivals.methods import METHODS
from socialjepa_jax.errors import check_positive
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.base import Objective
from socialjepa_jax.objectives.dino import cross_view_loss
from socialjepa_jax.objectives.simclr import nt_xent
from socialjepa_jax.objectives.swav import swap_loss
from socialjepa_jax.running import launch

SLOWEST = 1 / 3  # speed at an equal count of forwarded images, over I-JEPA's
TAUGHT = ("moco", "dino", "ibot", "dinov2")  # a teacher sees both global crops
AGREE = 1e-4  # relative difference of a loss from lightly's


def sized(name: str, vit: ViTConfig) -> Any:
    """Returns the objective of `METHODS` with another encoder, and local crops of half its side."""
    objective: Any = METHODS[name].objective
    names = {field.name for field in dataclasses.fields(objective)}
    changes: dict[str, Any] = {"vit" if "vit" in names else "encoder": vit}
    if "views" in names:
        size = vit.image_size // 2 // vit.patch_size * vit.patch_size
        changes["views"] = dataclasses.replace(objective.views, local_size=size)
    if name == "autoencoder":
        changes["decoder_patch"] = vit.patch_size
    return dataclasses.replace(objective, **changes)


def forwarded(objective: Any) -> float:
    """Returns whole images that a step forwards for each image: 3 with, and 1 without gradient."""
    kind = objective.kind
    if kind == "autoencoder":
        return 3.0
    if kind == "mae":
        return 3.0 * (1.0 - objective.mask_ratio)
    if kind in ("ijepa", "masked_lejepa"):
        visible = objective.masks.context_fraction
        return 3.0 * visible + (1.0 if kind == "ijepa" else 3.0)
    views, size = objective.views, objective.encoder.image_size
    crops = views.global_views + views.local_views * (views.local_size / size) ** 2
    return 3.0 * crops + (2.0 if kind in TAUGHT else 0.0)


def of_steps(vit: ViTConfig, batch_size: int, effort: Effort) -> Iterator[Result]:
    """Images/s of every objective, and its speed at an equal count over I-JEPA's."""
    objectives: dict[str, Objective] = {name: sized(name, vit) for name in METHODS}
    steps = [steps_lib.make_step(objective, batch_size) for objective in objectives.values()]
    found = dict(zip(objectives, steps_lib.times(steps, effort), strict=True))
    unit = found["ijepa"] / forwarded(objectives["ijepa"])
    for name, objective in objectives.items():
        count, rate = forwarded(objective), batch_size / found[name]
        note = f"{rate:.0f} images/s, {count:.2f} images forwarded"
        yield Result(f"{name}: speed over ijepa", unit * count / found[name], SLOWEST, note=note)


Arrays = tuple[np.ndarray, ...]


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _embeddings(batch: int, outputs: int) -> dict[str, Arrays]:
    """Two views [2, N, 128] with prototypes, and logits [4, N, K] of student and teacher."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    return {
        "simclr": (normal(2, batch, 128),),
        "swav": (normal(2, batch, 128), _unit(normal(outputs, 128))),
        "dino": (normal(4, batch, outputs), normal(2, batch, outputs)),
    }


OURS: dict[str, Callable[..., jax.Array]] = {
    "simclr": lambda z: nt_xent(z[0], z[1], temperature=0.5),
    "swav": lambda z, prototypes: swap_loss(z, prototypes, eps=0.05, temperature=0.1),
    "dino": lambda student, teacher: cross_view_loss(
        student, teacher, jnp.zeros(student.shape[-1]), teacher_temperature=0.04
    ),
}
"""Losses of arrays; the gradient is with respect to the first."""


def _theirs(torch: Any, name: str) -> Callable[..., Any]:
    from lightly import loss

    if name == "simclr":
        of_pair = loss.NTXentLoss(temperature=0.5)
        return lambda z: of_pair(z[0], z[1])
    if name == "swav":
        swapped = loss.SwaVLoss(temperature=0.1, sinkhorn_iterations=3, sinkhorn_epsilon=0.05)

        def of_scores(z: Any, prototypes: Any) -> Any:
            scores = torch.nn.functional.normalize(z, dim=-1) @ prototypes.T
            return swapped(list(scores), [])

        return of_scores
    settings = {"warmup_teacher_temp": 0.04, "teacher_temp": 0.04, "student_temp": 0.1}

    def distilled(student: Any, teacher: Any) -> Any:  # a fresh centre each time, as ours
        return loss.DINOLoss(student.shape[-1], **settings)(list(teacher), list(student), epoch=0)

    return distilled


def of_losses(batch: int, outputs: int, effort: Effort) -> Iterator[Result]:
    """Speed of our losses over lightly's; none without it.

    Raises:
        AssertionError: the values differ.
    """
    try:
        import lightly  # noqa: F401
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)
    for name, arrays in _embeddings(batch, outputs).items():
        ours = jax.jit(jax.value_and_grad(OURS[name]))
        theirs, given = _theirs(torch, name), [torch.from_numpy(x) for x in arrays]
        value = partial(ours, *map(jnp.asarray, arrays))
        expected = float(theirs(*given))
        np.testing.assert_allclose(value()[0], expected, rtol=AGREE, err_msg=name)

        def eager(theirs: Any = theirs, given: Any = given) -> None:
            z = given[0].detach().requires_grad_()
            theirs(z, *given[1:]).backward()

        mine, other = steps_lib.together([value, eager], effort)
        note = f"{1e3 * mine:.1f} ms, lightly {1e3 * other:.1f} ms"
        yield Result(f"{name}: loss, speed over lightly", other / mine, 1.0, note=note)


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_integer("repeats", 5, "Repeats of each measurement, of which the least counts.")
    flags.DEFINE_integer("batch", 16, "Images of a step.")
    flags.DEFINE_bool("rehearse", False, "Tiny sizes: everything runs, no figure means anything.")
    flags.DEFINE_string("out", None, "JSON file.")


def main() -> None:
    """Prints the table and writes the figures."""
    steps_lib.use_one_thread()
    given = flags.FLAGS
    check_positive(**{"--repeats": given.repeats, "--batch": given.batch})
    out, effort = results.out_file(given.out), Effort(windows=given.repeats)
    vit, rows, outputs = (TINY, 8, 16) if given.rehearse else (TI, 256, 4096)
    found = [*of_losses(rows, outputs, effort), *of_steps(vit, given.batch, effort)]
    results.publish(found, out)


if __name__ == "__main__":
    define_flags()
    launch.run(main)
