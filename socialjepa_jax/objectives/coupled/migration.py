"""A student that is pulled towards what a frozen teacher sees (section 3.7, Algorithm 2).

    own L(student) + beta |z_T - W z_S|^2,

with the teacher's latent z_T of the same state through its own camera. No gradient reaches the
teacher or W. Directions are student -> teacher, the inverse of those of probes.

Shape key: B batch, H height, W width, C channels, D student features, E teacher features.
"""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.data.augment.colour import normalize
from socialjepa_jax.errors import InputError, check_non_negative, check_one_of
from socialjepa_jax.objectives.base import (
    Aux,
    Batch,
    HParams,
    Metrics,
    Objective,
    Params,
    projected,
)
from socialjepa_jax.objectives.coupled.classes import Classes
from socialjepa_jax.objectives.coupled.link import Link, Pull
from socialjepa_jax.objectives.coupled.members import (
    check_trained,
    groups_by_member,
    width_of,
)
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class Migration:
    """Objective of a student and a frozen teacher, an earlier run's agent.

    By itself it encodes with the student; `bind` adds what the loss needs of the teacher.

    Attributes:
        kind: names this objective in a configuration.
        objective: of the student.
        teacher: workdir of the teacher's run, or the path of its saved encoders.
        teachers: the teacher's agent of each student; (): agent k of the run teaches student k.
        weight: beta; `hparams['beta']`, if present, takes precedence.
        own: factor of the student's own loss; `hparams['own']`, if present, takes precedence.
        link: the map W, or another `Pull` towards the teacher's latents.
        teacher_width: E, features of the teacher's latents; 0: as many as the student's.
    """

    objective: Objective
    kind: str = "migration"
    teacher: str = ""
    teachers: tuple[int, ...] = ()
    weight: float = 1.0
    own: float = 1.0
    link: Pull = Link()
    teacher_width: int = 0

    def __post_init__(self) -> None:
        check_one_of(("migration",), kind=self.kind)
        check_non_negative(weight=self.weight, own=self.own, teacher_width=self.teacher_width)
        check_trained(self.objective)
        self.link.check_widths(*self._widths)
        if not self.teacher:
            raise InputError(f"teacher={self.teacher!r} must be the workdir of a run")

    @property
    def _widths(self) -> tuple[int, int]:
        """D and E."""
        width = width_of(self.objective)
        return width, self.teacher_width or width

    def bind(self, teacher: Objective) -> "Taught":
        """Returns the objective that can be trained.

        Args:
            teacher: the teacher's objective.

        Raises:
            InputError: its latents have another width than was said.
        """
        if (width := width_of(teacher)) != self._widths[1]:
            raise InputError(
                f"teacher_width={self.teacher_width} stands for {self._widths[1]} features, the "
                f"teacher's latents have {width}"
            )
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return Taught(**own, taught_by=teacher)

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns {'student'} and {'student', 'link'}; a learned map has parameters 'link' too."""
        params, aux = self.objective.init(key)
        head, state = self.link.init(jax.random.fold_in(key, 1), *self._widths)
        found = {"student": params} | ({"link": head} if head else {})
        return found, {"student": aux, "link": state}

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Raises `InputError`: a student has no loss before `bind`."""
        raise InputError("migration needs its teacher: build the experiment with build.build")

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Returns the carried state after the student's own rule."""
        student = self.objective.after_update(params["student"], aux["student"], step, hparams)
        return {**aux, "student": student}

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes images with the student."""
        return self.objective.encode(params["student"], aux["student"], images)

    def groups(self, params: Params) -> Params:
        """Returns the parameter groups: the student's own, and the map's with a norm of its own."""
        return groups_by_member({"student": self.objective}, params)

    def project(self, params: Params) -> Params:
        """Returns the parameters after the student's projection."""
        return {**params, "student": projected(self.objective, params["student"])}


@dataclass(frozen=True)
class Taught(Migration):
    """A `Migration` with its teacher's objective; `hparams['teacher']` holds the teacher itself.

    That is {'params', 'aux', 'mean', 'std'} of an agent of the teacher's run, with its 'head' where
    the pull is by `Classes`: constants, which no checkpoint holds.

    Attributes:
        taught_by: the teacher's objective.
    """

    taught_by: Objective = dataclasses.field(kw_only=True)

    @property
    def has_teacher(self) -> bool:
        """False where labels teach alone, so that no image is encoded for it."""
        return not isinstance(self.link, Classes) or self.link.soft > 0

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the objective on batch['a'] (student) and batch['b'] (teacher).

        The student's own loss is that of batch['own'], where it learns from more than the pairs.
        Metrics are the student's own, 'coupling' (the unweighted term) and those of `link.pull`.
        """
        counters = {name: batch[name] for name in ("step", "draw")}
        own = {**batch["own" if "own" in batch else "a"], **counters}
        alone, (student, metrics) = self.objective.loss(
            params["student"], aux["student"], own, key, hparams, reduce
        )
        x_BD = self.encode(params, aux, batch["a"]["image"])["latent"].astype(jnp.float32)
        link: Pull = self.link
        if isinstance(link, Classes):
            link = link.bind(batch["a"]["index"], hparams)
        y_BE = self._seen(batch["b"], hparams)
        head, state = params.get("link", {}), aux["link"]
        term, moved, found = link.pull(head, state, x_BD, y_BE, batch["step"], reduce)
        beta = hparams.get("beta", self.weight) * state["ready"]
        total = hparams.get("own", self.own) * alone + beta * term
        metrics = {**metrics, "coupling": jax.lax.stop_gradient(term), **found}
        return total, ({"student": student, "link": moved}, metrics)

    def _seen(self, batch: Batch, hparams: HParams) -> jax.Array:
        """Returns the teacher's latents f32[B, E] of its own camera's images; without one, none."""
        if not self.has_teacher:
            return jnp.zeros((len(batch["image"]), 0))
        teacher = hparams["teacher"]
        mean, std = (batch[name][None, None, None] for name in ("mean", "std"))
        pixels = batch["image"] * std + mean
        images = normalize(pixels, teacher["mean"], teacher["std"])
        y_BE = self.taught_by.encode(teacher["params"], teacher["aux"], images)["latent"]
        return jax.lax.stop_gradient(y_BE.astype(jnp.float32))
