"""A pull by classes: Hinton's distillation with a teacher's head and labels.

    soft T^2 KL(softmax(t / T) || softmax(s / T)) + hard CE(s, label)     (Hinton et al. 2015, 2)

s are logits of the student's linear head, which is trained along; t those of a head on the
teacher's latents, a constant that was fitted to them before. With soft = 0 labels teach alone.

Shape key: B batch, N states, D features of x, E features of y, C classes.
"""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import InputError, check_non_negative, check_one_of, check_positive
from socialjepa_jax.objectives.base import HParams, Metrics
from socialjepa_jax.objectives.coupled.divergences import distillation
from socialjepa_jax.objectives.coupled.link import State, linear, linear_head
from socialjepa_jax.objectives.shared.crossentropy import identify
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class Classes:
    """A `Pull` by classes; `bind` adds what it reads of the settings.

    Attributes:
        kind: names this pull in a configuration.
        num_classes: C.
        temperature: T of both sides.
        soft: weight of the divergence from the teacher; 0: there is no teacher.
        hard: weight of the cross-entropy of labels.
    """

    kind: str = "classes"
    num_classes: int = 2
    temperature: float = 4.0
    soft: float = 1.0
    hard: float = 1.0

    def __post_init__(self) -> None:
        check_one_of(("classes",), kind=self.kind)
        check_classes(self.num_classes)
        check_positive(temperature=self.temperature)
        check_non_negative(soft=self.soft, hard=self.hard)
        if not self.soft and not self.hard:
            raise InputError(f"soft={self.soft} and hard={self.hard} leave nothing to learn")

    def check_widths(self, x: int, y: int) -> None:
        """Accepts latents of any widths."""

    def init(self, key: jax.Array, x: int, y: int) -> tuple[State, State]:
        """Returns the student's head, and a state that is ready."""
        return linear_head(key, x, self.num_classes), {"ready": jnp.ones(())}

    def bind(self, index_B: jax.Array, hparams: HParams) -> "Told":
        """Returns the pull of a batch.

        Args:
            index_B: of the states.
            hparams: with 'labels' [N], see `labels_of`, and in 'teacher' its 'head': 'kernel'
                f32[E, C] and 'bias' f32[C], such as `collaboration.logistic.fit_logistic` finds.

        Raises:
            InputError: there are no labels, or the teacher has no head for these classes.
        """
        labels_B = labels_of(hparams, index_B) if self.hard else jnp.zeros_like(index_B)
        head = self._head_of(hparams) if self.soft else {}
        return Told(**dataclasses.asdict(self), head=head, labels_B=labels_B)

    def _head_of(self, hparams: HParams) -> State:
        head = hparams["teacher"].get("head")
        if head is None:
            raise InputError("hparams['teacher'] has no 'head', a linear one on its latents")
        if (found := head["bias"].shape[-1]) != self.num_classes:
            raise InputError(
                f"num_classes={self.num_classes}, the teacher's head has {found} classes"
            )
        return jax.lax.stop_gradient(head)

    def pull(
        self, params: State, state: State, x_BD: jax.Array, y_BE: jax.Array, step: jax.Array,
        reduce: Reduce,
    ) -> tuple[jax.Array, State, Metrics]:  # fmt: skip
        """Raises `InputError`: there is no term before `bind`."""
        raise InputError("classes need labels or a teacher's head: call bind first")


@dataclass(frozen=True, eq=False)
class Told(Classes):
    """`Classes` with the labels of a batch and the teacher's head.

    Attributes:
        head: of the teacher, a constant; {} without one.
        labels_B: i32[B].
    """

    head: State = dataclasses.field(kw_only=True)
    labels_B: jax.Array = dataclasses.field(kw_only=True)

    def pull(
        self, params: State, state: State, x_BD: jax.Array, y_BE: jax.Array, step: jax.Array,
        reduce: Reduce,
    ) -> tuple[jax.Array, State, Metrics]:  # fmt: skip
        """Returns the term, the same state, and 'link/soft' and 'link/hard' without weights."""
        s_BC = linear(params, x_BD)
        term, metrics = jnp.zeros(()), {}
        if self.soft:
            t_BC = linear(self.head, y_BE)
            soft = reduce.mean(distillation(t_BC, s_BC, self.temperature))
            term, metrics["link/soft"] = term + self.soft * soft, soft
        if self.hard:
            hard = reduce.mean(cross_entropy(s_BC, self.labels_B))
            term, metrics["link/hard"] = term + self.hard * hard, hard
        return term, state, jax.lax.stop_gradient(metrics)


def check_classes(num_classes: int) -> None:
    """Raises `InputError` unless there are two classes or more."""
    if num_classes < 2:
        raise InputError(f"num_classes={num_classes} must be at least 2")


def labels_of(hparams: HParams, index_B: jax.Array) -> jax.Array:
    """Returns the labels i32[B] of states.

    Args:
        hparams: with 'labels' [N], the class of every state; -1 where it must not be read.
        index_B: of the states.

    Raises:
        InputError: there are no labels.
    """
    if "labels" not in hparams:
        raise InputError("hparams has no 'labels', the class of every state")
    return hparams["labels"][index_B].astype(jnp.int32)


def cross_entropy(logits_BC: jax.Array, labels_B: jax.Array) -> jax.Array:
    """Returns the cross-entropy f32[B] of labels.

    It is NaN, and so is its gradient, where a label is none of the C classes: such an update is
    skipped, and a state whose label is hidden cannot teach unnoticed.
    """
    is_class_B = (labels_B >= 0) & (labels_B < logits_BC.shape[1])
    known_B = jnp.where(is_class_B, labels_B, 0)
    return identify(logits_BC, known_B) * jnp.where(is_class_B, 1.0, jnp.nan)
