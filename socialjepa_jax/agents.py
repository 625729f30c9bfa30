"""Agents: independent runs, stepped side by side by one compiled program.

Everything trained carries a leading agent axis. `Trainer.step` is

    shard_map over ('agent', 'data') ( map over the local agents ( scan over steps ( one step )))

and one step of one agent is a pure function of (state, its source, its settings):

    source.batch -> loss -> gradient -> optimiser -> project -> after_update.

Shape key: A agents, H height, W width, C channels, B batch, S steps, D features.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from socialjepa_jax import keys, sharding
from socialjepa_jax.data.augment.colour import normalize
from socialjepa_jax.data.protocols import Source
from socialjepa_jax.errors import InputError, check_one_of
from socialjepa_jax.keys import Stream
from socialjepa_jax.models.vit import vits
from socialjepa_jax.objectives.base import (
    Aux,
    HParams,
    Metrics,
    Objective,
    Params,
    groups_of,
    projected,
    start,
)
from socialjepa_jax.optim import Optimizer

# XLA sums all gradients at once, after the backward pass. With these options those of some layers
# are summed while others are computed; seen in compiled schedules, see docs/certificates.md. The
# options of TPUs make the whole step move a fifth more bytes, which costs more than is hidden.
OVERLAP = {"gpu": {"xla_gpu_all_reduce_combine_threshold_bytes": 8 << 20}}

PyTree = Any
Gradient = tuple[tuple[jax.Array, tuple[PyTree, Metrics]], PyTree]  # ((loss, (aux, metrics)), g)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["step", "params", "aux", "opt_state", "skipped", "in_a_row", "passed_over"],
    meta_fields=[],
)
@dataclass(frozen=True)
class AgentState:
    """Everything that a run carries from one step to the next; leaves have a leading agent axis.

    Attributes:
        step: i32[A], updates done (or skipped) so far.
        params: trainable parameters.
        aux: state that the objective carries beside them (EMA target, ...).
        opt_state: the optimiser's moments.
        skipped: i32[A], updates skipped so far because the loss or the gradient was not finite.
        in_a_row: i32[A], length of the latest unbroken run of skipped updates.
        passed_over: i32[A], draws left out by roll-backs: step s takes draw s + passed_over.
    """

    step: jax.Array
    params: PyTree
    aux: PyTree
    opt_state: PyTree
    skipped: jax.Array
    in_a_row: jax.Array
    passed_over: jax.Array


def choose_agent_map(name: str) -> str:
    """Resolves "auto": "map" on CPUs, where one agent after another is faster, else "vmap"."""
    check_one_of(("auto", "vmap", "map"), agent_map=name)
    if name != "auto":
        return name
    return "map" if jax.default_backend() == "cpu" else "vmap"


@dataclass(frozen=True)
class Trainer:
    """Steps all agents on a mesh.

    Attributes:
        objective: loss, initial parameters and encoder.
        optimizer: updates the parameters.
        total_steps: length of the run, for the schedules.
        batch_size: samples of a step and agent, over all devices.
        steps_per_call: steps in one compiled call.
        mesh: devices over ('agent', 'data').
        agent_map: "vmap" | "map": how a device steps the agents it holds. On CPUs `vmap` over
            small networks is slower than one after another, and "map" keeps agents bit-identical
            whatever their neighbours do.
        max_skips: an update whose loss or gradient is not finite is skipped; after this many in a
            row the agent stays as it is. 0: no update is ever skipped.
        gradient_sums: "float32" | "bfloat16": type in which gradients are summed over an agent's
            devices. "bfloat16" sends half of the bytes and rounds every device's gradient.
        overlap_sums: ask the compiler to sum gradients beside the backward pass, see `OVERLAP`.
    """

    objective: Objective
    optimizer: Optimizer
    total_steps: int
    batch_size: int
    steps_per_call: int
    mesh: Mesh
    agent_map: str
    max_skips: int = field(default=0, kw_only=True)
    gradient_sums: str = field(default="float32", kw_only=True)
    overlap_sums: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_one_of(("vmap", "map"), agent_map=self.agent_map)
        check_one_of(sharding.SUMS, gradient_sums=self.gradient_sums)
        # On several devices the kernels' unchecked types would make gradients silently wrong.
        kernels = {vit.attention for vit in vits(self.objective)} - {"xla", "auto"}
        if self.mesh.size > 1 and kernels:
            raise InputError(
                f"attention={kernels.pop()!r} runs on one device, here are {self.mesh.size}; "
                "use 'xla'"
            )

    @functools.cached_property
    def init(self) -> Callable[[HParams], AgentState]:
        """The compiled start: hparams with 'seed' [A] -> the agents' states at step 0."""

        def init_one(hparams: HParams) -> AgentState:
            key = keys.agent_key(hparams["seed"], Stream.INIT)
            # A second buffer: the state is donated, and a buffer can be donated only once.
            params, aux = jax.tree.map(jnp.copy, start(self.objective, key, hparams))
            opt_state, zero = self._init_optimizer(params), jnp.int32(0)
            return AgentState(zero, params, aux, opt_state, zero, zero, zero)

        return self._compile(init_one)

    @functools.cached_property
    def step(self) -> Callable[[AgentState, Source, HParams], tuple[AgentState, Metrics]]:
        """The compiled call: (state, source, hparams) -> (state, metrics [A, S]). Donates state."""

        def steps_of_one(
            state: AgentState, source: Source, hparams: HParams
        ) -> tuple[AgentState, Metrics]:
            return self._scan(self._step_one, state, (source, hparams))

        return self._compile(steps_of_one, donate=True)

    @functools.cached_property
    def encode(self) -> Callable[..., jax.Array]:
        """The compiled encoder: (state, images u8[A, B, H, W, C], mean, std) -> f32[A, B, D]."""
        return self._compile(lambda *args: self._encode_one(*args)["latent"])

    @functools.cached_property
    def encode_all(self) -> Callable[..., dict[str, jax.Array]]:
        """Like `encode`, with every latent the objective names: {'latent': f32[A, B, D], ...}."""

        def flat_outputs(*args: Any) -> dict[str, jax.Array]:
            return {name: z for name, z in self._encode_one(*args).items() if z.ndim == 2}

        return self._compile(flat_outputs)

    def _encode_one(
        self, state: AgentState, images: jax.Array, mean: jax.Array, std: jax.Array
    ) -> dict[str, jax.Array]:
        images = normalize(images.astype(jnp.float32) / 255, mean, std)
        return self.objective.encode(state.params, state.aux, images)

    def _step_one(
        self, state: AgentState, source: Source, hparams: HParams
    ) -> tuple[AgentState, Metrics]:
        """One update of one agent, inside shard_map."""
        (loss, (aux, metrics)), grads = self._gradient(state, source, hparams)
        params, opt_state, rate = self._optimize(grads, state, hparams)
        with jax.named_scope("after_update"):
            params = projected(self.objective, params)
            aux = self.objective.after_update(params, aux, state.step, hparams)
        dot = functools.partial(jnp.vdot, precision=jax.lax.Precision.HIGHEST)
        norm = jnp.sqrt(sum(dot(g, g) for g in jax.tree.leaves(grads)))
        metrics = {**metrics, "loss": loss, "grad_norm": norm, "learning_rate": rate}
        after = replace(state, step=state.step + 1, params=params, aux=aux, opt_state=opt_state)
        finite = jnp.isfinite(loss) & jnp.isfinite(norm)
        return self._unless_bad(finite, self._finite_members(grads), state, after), metrics

    def _gradient(self, state: AgentState, source: Source, hparams: HParams) -> Gradient:
        """Loss, carried state, metrics and gradient of one agent's global batch."""
        draw, seed = state.step + state.passed_over, hparams["seed"]
        batch = source.batch(draw, seed, self.batch_size)
        batch = {**batch, "step": state.step, "draw": draw}
        loss_key, _ = keys.step_keys(seed, draw)
        gradient = jax.value_and_grad(self._loss, has_aux=True)
        reduce = sharding.Reduce(sharding.DATA)
        return gradient(state.params, state.aux, batch, loss_key, hparams, reduce)

    def _loss(self, params: Params, *rest: Any) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        if self.gradient_sums != "float32" and self.mesh.shape[sharding.DATA] > 1:
            params = jax.tree.map(lambda x: sharding.spread(x, self.gradient_sums), params)
        return self.objective.loss(params, *rest)

    @property
    def _members(self) -> tuple[str, ...]:
        """Models of the objective that are updated apart, each by an optimiser of its own."""
        return getattr(self.objective, "members", ())

    def _init_optimizer(self, params: Params) -> PyTree:
        if not self._members:
            return self.optimizer.init(params)
        return {name: self.optimizer.init(params[name]) for name in self._members}

    def _optimize(
        self, grads: PyTree, state: AgentState, hparams: HParams
    ) -> tuple[Params, PyTree, jax.Array]:
        """Returns new parameters and optimiser state, and the learning rate."""
        apply = functools.partial(
            self.optimizer.apply,
            step=state.step,
            total_steps=self.total_steps,
            rate=hparams["learning_rate"],
        )
        groups = groups_of(self.objective, state.params)
        if not self._members:
            return apply(grads, state.opt_state, state.params, groups=groups)
        params, opt_state = {}, {}
        for name in self._members:
            params[name], opt_state[name], rate = apply(
                grads[name], state.opt_state[name], state.params[name],
                groups=None if groups is None else groups[name],
            )  # fmt: skip
        return params, opt_state, rate

    def _finite_members(self, grads: PyTree) -> dict[str, jax.Array]:
        """Returns for each member of the objective, if it has some, whether its gradient is finite.

        A loss that is not finite has a gradient that is not.
        """
        return {
            name: jnp.all(jnp.stack([jnp.isfinite(g).all() for g in jax.tree.leaves(grads[name])]))
            for name in self._members
        }

    def _unless_bad(
        self,
        finite: jax.Array,
        members: dict[str, jax.Array],
        before: AgentState,
        after: AgentState,
    ) -> AgentState:
        """Returns the state after an update, or the one before if the update is to be skipped.

        Loss and gradient are those of the global batch, so all shards decide alike. Leaves of a
        member are kept where that member is bad, all others where any is.
        """
        if not self.max_skips:
            return after
        alive = before.in_a_row < self.max_skips
        good = finite & alive

        def chosen(path: tuple, new: jax.Array, old: jax.Array) -> jax.Array:
            member = getattr(path[1], "key", None) if len(path) > 1 else None  # of params, aux, ...
            return jnp.where(members[member] & alive if member in members else good, new, old)

        kept = jax.tree_util.tree_map_with_path(chosen, after, before)
        return replace(
            kept,
            step=after.step,
            skipped=before.skipped + ~good,
            in_a_row=jnp.where(good, 0, before.in_a_row + 1),
        )

    # Seams: a subclass may scan, map and compile otherwise.

    def _scan(self, step: Callable[..., Any], state: AgentState, constants: tuple) -> Any:
        """Scans `step` over the steps of a call."""
        return jax.lax.scan(
            lambda carry, _: step(carry, *constants), state, length=self.steps_per_call
        )

    def _map(self, one: Callable[..., Any]) -> Callable[..., Any]:
        """Maps a function of one agent over the agents that a device holds."""
        if self.agent_map == "vmap":
            return jax.vmap(one)
        return lambda *args: jax.lax.map(lambda a: one(*a), args)

    @property
    def _takes_kernels(self) -> bool:
        """True if attention kernels may be used, whose types do not say how devices vary."""
        choices = {vit.attention for vit in vits(self.objective)} - {"xla"}
        return self.mesh.size == 1 and jax.default_backend() == "gpu" and bool(choices)

    @property
    def _check_vma(self) -> bool:
        return not self._takes_kernels

    @property
    def compiler_options(self) -> dict[str, Any] | None:
        """Options of the compiler, where an agent's gradients are summed over devices."""
        if not self.overlap_sums or self.mesh.shape[sharding.DATA] == 1:
            return None
        return OVERLAP.get(jax.default_backend())

    def _compile(self, one: Callable[..., Any], donate: bool = False) -> Callable[..., Any]:
        """Lifts a function of one agent to stacked agents on the mesh, and compiles it."""
        agent = P(sharding.AGENT)

        def sharded(*args: Any) -> Any:
            specs = tuple(arg.specs() if hasattr(arg, "specs") else agent for arg in args)
            mapped = jax.shard_map(
                self._map(one),
                mesh=self.mesh,
                in_specs=specs,
                out_specs=agent,
                check_vma=self._check_vma,
            )
            return mapped(*args)

        sharded.__name__ = one.__name__  # traces tell programs apart by this name
        return jax.jit(
            sharded,
            donate_argnums=(0,) if donate else (),
            # Fixed, so that drawn, stepped and restored states are sharded alike and the step is
            # compiled once for all of them.
            out_shardings=sharding.by_agent(self.mesh),
            compiler_options=self.compiler_options,
        )
