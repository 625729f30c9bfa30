"""The configuration of a run: frozen, validated dataclasses, and the border to ConfigDict.

A config file returns a ConfigDict (typed and overridable on the command line); the program only
ever sees an `Experiment`. `to_config_dict` and `from_config_dict` are each other's inverse, and
the only place where one becomes the other.
"""

import dataclasses
import difflib
import types
import typing
from typing import Any

import ml_collections

from socialjepa_jax.data import DATASETS
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.shuffle import Shuffle
from socialjepa_jax.data.protocols import Data
from socialjepa_jax.errors import (
    InputError,
    check_divides,
    check_in_range,
    check_non_negative,
    check_one_of,
    check_positive,
    shown,
    sides,
)
from socialjepa_jax.models.encoders import ENCODERS
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.base import Objective
from socialjepa_jax.objectives.coupled import LINKS
from socialjepa_jax.optim import AdamW, Lars, Optimizer
from socialjepa_jax.sharding import SUMS

# The registry: fields whose class is chosen by their `kind`.
KINDS: dict[str, dict[str, type]] = {
    "data": dict(DATASETS),
    "objective": dict(OBJECTIVES),
    "encoder": dict(ENCODERS),
    "optim": {"adamw": AdamW, "lars": Lars},
    "link": dict(LINKS),
}
_METHODS = {
    "data": ("load", "num_cameras", "image_size", "channels"),
    "objective": ("init", "loss", "after_update", "encode"),
    "optim": ("init", "apply"),
}


def register(group: str, kind: str, cls: type) -> None:
    """Adds a class that configurations can name by its `kind`.

    Args:
        group: "data" | "objective" | "optim".
        kind: the name; the class has a field `kind` with this default.
        cls: a frozen, validated dataclass with the methods of its protocol (`data.protocols.Data`,
            `objectives.base.Objective`, `optim.Optimizer`).

    Raises:
        InputError: there is no such group, the name is taken, or a method is missing.
    """
    check_one_of(tuple(_METHODS), group=group)
    if KINDS[group].get(kind, cls) is not cls:
        raise InputError(f"kind={kind!r} is {KINDS[group][kind].__name__} already")
    if not dataclasses.is_dataclass(cls):
        raise InputError(f"{cls.__name__} must be a dataclass")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    if "kind" not in fields or fields["kind"].default != kind:
        raise InputError(f"{cls.__name__} must have a field kind: str = {kind!r}")
    if missing := [name for name in _METHODS[group] if name not in {*fields, *dir(cls)}]:
        raise InputError(f"{cls.__name__} must have {missing[0]}, see the protocol of {group}")
    KINDS[group][kind] = cls


_MAX_INT = 2**63 - 1

# A pair of an agent's seed and an experiment's seed is one uint32.
AGENT_SEEDS = 1_000_003  # agent seeds are smaller than this
REPETITIONS = 4_294  # experiment seeds are smaller than this


@dataclasses.dataclass(frozen=True)
class Agents:
    """The agents: one entry per agent in each field.

    Attributes:
        cameras: the camera of each agent.
        seeds: folded into the agent's initialisation, masks and batch order; distinct.
        partners: second camera of each agent, for coupled objectives; () for all others.
        partner_seeds: seeds of the models behind the second cameras, where they learn too.
    """

    cameras: tuple[int, ...] = (0, 1, 0)
    seeds: tuple[int, ...] = (0, 1, 2)
    partners: tuple[int, ...] = ()
    partner_seeds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.cameras or len(self.cameras) != len(self.seeds):
            raise InputError(
                f"cameras={self.cameras} and seeds={self.seeds} must name at least one agent and "
                "be equally long"
            )
        for name in ("partners", "partner_seeds"):
            if len(getattr(self, name)) not in (0, len(self.seeds)):
                raise InputError(
                    f"{name}={getattr(self, name)} must be () or one for each of "
                    f"{len(self.seeds)} agents"
                )
        every = (*self.seeds, *self.partner_seeds)
        if len(set(every)) != len(every):
            shown_seeds = f"seeds={self.seeds}"
            if self.partner_seeds:
                shown_seeds += f", partner_seeds={self.partner_seeds}"
            raise InputError(f"{shown_seeds} must be distinct: equal seeds are one agent")
        check_non_negative(cameras=min(self.cameras), partners=min(self.partners, default=0))
        for seed in every:
            check_in_range(0, AGENT_SEEDS - 1, seeds=seed)


@dataclasses.dataclass(frozen=True)
class Run:
    """Length and rhythm of a run.

    `steps` and `batch_size` change what it computes; `gradient_sums` changes how it is rounded.

    Attributes:
        steps: updates.
        batch_size: images of a step and agent, over all devices.
        steps_per_call: steps in one compiled call.
        log_every, eval_every, save_every: in steps; multiples of `steps_per_call`.
        keep_checkpoints: newest ones kept.
        agent_map: "auto" | "vmap" | "map": how a device steps several agents; "auto" is "map" on
            CPUs and "vmap" on accelerators.
        encode_batch: images of a call when latents are extracted.
        gradient_sums: "float32" | "bfloat16": type in which the gradients of an agent are summed
            over its devices.
        overlap_sums: ask the compiler to sum gradients beside the backward pass; False where it
            does not know the options, see `agents.OVERLAP`.
    """

    steps: int = 1000
    batch_size: int = 128
    steps_per_call: int = 10
    log_every: int = 50
    eval_every: int = 250
    save_every: int = 250
    keep_checkpoints: int = 2
    agent_map: str = "auto"
    encode_batch: int = 256
    gradient_sums: str = "float32"
    overlap_sums: bool = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.type in (int, "int"):
                check_in_range(1, 2**31 - 1, **{field.name: getattr(self, field.name)})
        check_divides(
            self.steps_per_call,
            steps=self.steps,
            log_every=self.log_every,
            eval_every=self.eval_every,
            save_every=self.save_every,
        )
        check_one_of(("auto", "vmap", "map"), agent_map=self.agent_map)
        check_one_of(SUMS, gradient_sums=self.gradient_sums)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The checkpoint that is kept as `checkpoints/best/`, beside the newest ones.

    Attributes:
        best_metric: "rankme": that of the highest RankMe, averaged over agents | "r2": of the
            highest R2 on the headline split, averaged over pairs | "none": no best is kept.
            Asked at every evaluation after step 0.
    """

    best_metric: str = "rankme"

    def __post_init__(self) -> None:
        check_one_of(("rankme", "r2", "none"), best_metric=self.best_metric)


@dataclasses.dataclass(frozen=True)
class Monitors:
    """Reactions to numbers that are not finite, and to collapse.

    An update whose loss or gradient is not finite is skipped: parameters, optimiser and what the
    objective carries stay as they are, the step still counts.

    Attributes:
        max_skips: skipped updates of one agent in a row that end the run.
        roll_backs: how often, instead of ending, the run goes back to its last checkpoint and the
            agent passes over the batches since.
        on_collapse: "warn" | "stop", when an evaluation after step 0 finds an agent collapsed.
    """

    max_skips: int = 10
    roll_backs: int = 0
    on_collapse: str = "warn"

    def __post_init__(self) -> None:
        check_positive(max_skips=self.max_skips)
        check_non_negative(roll_backs=self.roll_backs)
        check_one_of(("warn", "stop"), on_collapse=self.on_collapse)


@dataclasses.dataclass(frozen=True)
class Alignment:
    """Settings of the map between two latent spaces and of its metrics (`alignment.fit`).

    Attributes:
        method: "ridge" | "lstsq" | "procrustes".
        ridge: lambda of eq. (4), absolute, on standardised latents.
        kappa_max: the tau of Algorithm 1: singular values of W below s1 / kappa_max count as zero
            in its inverse. Latents of a trained ViT are close to low rank, and without a cut W^-1
            is noise: DSC by eq. (5) was -0.05 without and 0.80 with this one, on the same map.
        neighbors: k of NOS@k.
        probe_ridge: ridge of the linear probes, absolute, on standardised latents.
    """

    method: str = "ridge"
    ridge: float = 1e-3
    kappa_max: float = 100.0
    neighbors: tuple[int, ...] = (1, 5, 10, 20, 50)
    probe_ridge: float = 1.0

    def __post_init__(self) -> None:
        check_one_of(("ridge", "lstsq", "procrustes"), method=self.method)
        check_non_negative(ridge=self.ridge, probe_ridge=self.probe_ridge)
        check_positive(kappa_max=self.kappa_max, neighbors=min(self.neighbors, default=0))


@dataclasses.dataclass(frozen=True)
class Experiment:
    """All that a run is a function of.

    Attributes:
        name: shown in the report.
        seed: folded into every agent's seed: another seed is another repetition of the run.
        pretrain_on: "train": states that are train in both splits | "all".
        data, augment, shuffle, agents, objective, optim, run, checkpoint, monitors, alignment: see
            their classes.
    """

    name: str
    data: Data
    objective: Objective
    seed: int = 0
    pretrain_on: str = "train"
    augment: Augment = Augment()
    shuffle: Shuffle = Shuffle()
    agents: Agents = Agents()
    optim: Optimizer = AdamW()
    run: Run = Run()
    checkpoint: Checkpoint = Checkpoint()
    monitors: Monitors = Monitors()
    alignment: Alignment = Alignment()

    def __post_init__(self) -> None:
        check_in_range(0, REPETITIONS - 1, seed=self.seed)
        check_one_of(("train", "all"), pretrain_on=self.pretrain_on)
        self._check_encoder()
        if self.checkpoint.best_metric == "r2" and len(self.agents.seeds) == 1:
            raise InputError("checkpoint.best_metric='r2' needs two agents")
        self._check_cameras()
        self._check_shuffle()

    def _check_cameras(self) -> None:
        """Checks that there are the cameras, and second ones where two models are coupled."""
        cameras, agents = self.data.num_cameras, self.agents
        for name in ("cameras", "partners"):
            if max(getattr(agents, name), default=0) >= cameras:
                raise InputError(
                    f"agents.{name}={getattr(agents, name)}: there are {cameras} cameras"
                )
        coupled = hasattr(self.objective, "objective")
        if coupled != bool(agents.partners):
            raise InputError(
                f"agents.partners={agents.partners} must name a second camera for each agent if "
                f"the objective is coupled, and none otherwise; it is {self.objective.kind!r}"  # type: ignore[attr-defined]
            )
        if hasattr(self.objective, "members") != bool(agents.partner_seeds):
            raise InputError(
                f"agents.partner_seeds={agents.partner_seeds} must be given where both models "
                f"learn, and not otherwise; the objective is {self.objective.kind!r}"  # type: ignore[attr-defined]
            )

    def _check_shuffle(self) -> None:
        """Checks that the parts that change places fill the images, which lie on the devices."""
        if self.shuffle.unit == "none":
            return
        if hasattr(self.data, "open_feed"):
            raise InputError(
                f"shuffle.unit={self.shuffle.unit!r} needs data that do not make their own "
                f"batches, not data.kind={self.data.kind!r}"
            )
        try:
            self.shuffle.check_size(*sides(self.data.image_size))
        except InputError as error:
            raise InputError(f"shuffle.{error}") from None

    def _check_encoder(self) -> None:
        """Checks that every encoder of the objective takes the images of the data."""
        wanted = (sides(self.data.image_size), self.data.channels)
        objective = getattr(self.objective, "objective", self.objective)  # of a coupled one
        for field in dataclasses.fields(objective):  # type: ignore[arg-type]
            value = getattr(objective, field.name)
            if not hasattr(value, "image_size"):
                continue
            if (sides(value.image_size), value.channels) != wanted:
                raise InputError(
                    f"objective.{field.name}.image_size={value.image_size}, "
                    f"channels={value.channels} must be those of data: "
                    f"image_size={self.data.image_size}, channels={wanted[1]}"
                )


def to_config_dict(experiment: Experiment) -> ml_collections.ConfigDict:
    """Returns the experiment as a nested ConfigDict, the form that config files return."""
    return ml_collections.ConfigDict(to_plain(experiment))


def to_plain(value: Any) -> Any:
    """Returns dataclasses as nested dicts, whatever they hold unchanged."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


def from_config_dict(config: ml_collections.ConfigDict | dict[str, Any]) -> Experiment:
    """Returns the experiment that a ConfigDict (or JSON) describes.

    Raises:
        InputError: a key is unknown or missing, or a value has the wrong type or range; the
            message names the field by its full path.
    """
    plain = config.to_dict() if isinstance(config, ml_collections.ConfigDict) else config
    return _build(Experiment, plain, "config")


def _build(cls: type, values: Any, path: str) -> Any:
    """Builds one dataclass from a dict, recursively."""
    if not isinstance(values, dict):
        raise InputError(f"{path}={shown(values)} must be a group of settings")
    hints, fields = typing.get_type_hints(cls), {f.name: f for f in dataclasses.fields(cls)}
    for name in values:
        if name not in fields:
            similar = difflib.get_close_matches(str(name), fields, 1)
            hint = f"; did you mean {similar[0]!r}?" if similar else "."
            raise InputError(
                f"{path}.{name}: no such setting{hint} Known: {', '.join(sorted(fields))}"
            )
    for name, field in fields.items():
        if name not in values and field.default is field.default_factory is dataclasses.MISSING:
            raise InputError(f"{path}.{name} must be given")
    built = {
        name: _convert(hints[name], value, name, f"{path}.{name}") for name, value in values.items()
    }
    try:
        return cls(**built)
    except InputError as error:
        raise InputError(f"{path}.{error}") from None


def _convert(hint: Any, value: Any, name: str, path: str) -> Any:
    if name in KINDS and isinstance(value, dict):
        kinds, default = KINDS[name], "adamw" if name == "optim" else None
        kind: Any = value.get("kind", default)
        check_one_of(tuple(kinds), **{f"{path}.kind": kind})
        return _build(kinds[kind], value, path)
    if name in KINDS or dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), value, path)
    return _check_type(hint, value, path)


def _check_type(hint: Any, value: Any, path: str) -> Any:
    """Returns the value as the annotated type: int to float and list to tuple, nothing else."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        for option in typing.get_args(hint):
            try:
                return _check_type(option, value, path)
            except InputError:
                continue
    elif origin is tuple and isinstance(value, list | tuple):
        inner = typing.get_args(hint)
        if inner[-1] is Ellipsis:
            return tuple(_check_type(inner[0], v, path) for v in value)
        if len(inner) == len(value):
            return tuple(_check_type(h, v, path) for h, v in zip(inner, value))
    elif hint is type(None) and value is None:
        return None
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) > _MAX_INT:
        raise InputError(f"{path}={shown(value)} must be within 64 bits")
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif (
        isinstance(hint, type)
        and isinstance(value, hint)
        and isinstance(value, bool) == (hint is bool)
    ):
        return value
    raise InputError(f"{path}={shown(value)} must be {_wording(hint)}")


def _wording(hint: Any) -> str:
    """Describes an annotation in a message: "2 values: int, int" for tuple[int, int]."""
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is not tuple:
        return " or ".join(map(_wording, inner)) or hint.__name__
    if inner[-1] is Ellipsis:
        return f"a tuple of {_wording(inner[0])}"
    return f"{len(inner)} values: {', '.join(map(_wording, inner))}"


# Settings that may change between a run and its resumption: they do not alter the results.
# (Nor do `monitors`, as long as all numbers are finite.)
FREE_TO_CHANGE = {
    "config": {"checkpoint", "monitors"},
    "config.data": {"workers", "max_broken"},
    "config.run": {
        "log_every", "eval_every", "save_every", "keep_checkpoints", "steps_per_call",
        "agent_map", "encode_batch", "overlap_sums",
    },
}  # fmt: skip


def differences(old: Any, new: Any, path: str = "config") -> list[str]:
    """Lists the settings that differ and alter results, as 'path: old -> new'."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = sorted(old.keys() | new.keys())
        return [
            line
            for name in names
            if name not in FREE_TO_CHANGE.get(path, ())
            for line in differences(old.get(name), new.get(name), f"{path}.{name}")
        ]
    return [] if old == new else [f"{path}: {old!r} -> {new!r}"]
