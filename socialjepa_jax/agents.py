"""Agents: independent runs, stepped side by side by one compiled program.

Everything trained carries a leading agent axis. `Trainer.step` is

    shard_map over ('agent', 'data') ( map over the local agents ( scan over steps ( one step )))

and one step of one agent is a pure function of (state, its images, its settings):

    batch -> loss -> gradient -> AdamW -> after_update.

Shape key: A agents, N states, H height, W width, C channels, B batch, S steps, D features.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from socialjepa_jax import exact, sharding
from socialjepa_jax.data.augment import Augment, augment
from socialjepa_jax.data.augment.colour import normalize
from socialjepa_jax.data.resident import AgentData, batch_rows, gather, round_keys
from socialjepa_jax.data.streaming import StreamedData
from socialjepa_jax.errors import InputError, check_divides, check_one_of
from socialjepa_jax.models.vit import vits
from socialjepa_jax.objectives.base import HParams, Metrics, Objective
from socialjepa_jax.optim import AdamW

PyTree = Any

# The named random streams of an agent; each is folded into the agent's own key.
_INIT, _ORDER, _STEP = 0, 1, 2


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["step", "params", "aux", "opt_state", "skipped", "in_a_row", "passed_over"],
    meta_fields=[],
)
@dataclass(frozen=True)
class AgentState:
    """All that a run carries from one step to the next; leaves have a leading agent axis.

    Attributes:
        step: i32[A], updates done (or skipped) so far.
        params: what the optimiser moves.
        aux: what the objective carries beside it (EMA target, ...).
        opt_state: the optimiser's moments.
        skipped: i32[A], updates skipped so far, because the loss or the gradient was not finite.
        in_a_row: i32[A], the latest of them that followed each other.
        passed_over: i32[A], batches that are left out: step s takes the draws of s + passed_over.
    """

    step: jax.Array
    params: PyTree
    aux: PyTree
    opt_state: PyTree
    skipped: jax.Array
    in_a_row: jax.Array
    passed_over: jax.Array


def order_keys(seeds: jax.Array, epochs: int) -> jax.Array:
    """u32[A, E, 16]: what the order of the rows in every epoch is made of, for each seed [A]."""

    def of_epoch(seed: jax.Array, epoch: jax.Array) -> jax.Array:
        return round_keys(jax.random.fold_in(agent_key(seed, _ORDER), epoch))

    over_epochs = jax.vmap(of_epoch, in_axes=(None, 0))
    return jax.vmap(over_epochs, in_axes=(0, None))(seeds, jnp.arange(epochs))


def agent_key(seed: jax.Array, stream: int) -> jax.Array:
    """The key of one named random stream of the agent with this seed."""
    return jax.random.fold_in(jax.random.key(seed), stream)


def choose_agent_map(name: str, exact_shards: int = 0) -> str:
    """ "auto" is "map" on CPUs, where one agent after the other is faster, and for exact sums, and
    "vmap" elsewhere."""
    check_one_of(("auto", "vmap", "map"), agent_map=name)
    if name != "auto":
        return name
    return "map" if jax.default_backend() == "cpu" or exact_shards else "vmap"


@dataclass(frozen=True)
class Trainer:
    """Steps all agents on a mesh.

    Attributes:
        objective: what is learnt.
        optimizer: how.
        augmentation: of the training pictures.
        total_steps: length of the run, for the schedules.
        batch_size: pictures a step and agent, over all devices.
        steps_per_call: steps in one compiled call.
        mesh: devices over ('agent', 'data').
        agent_map: "vmap" | "map": how a device steps the agents it holds. On CPUs `vmap` over
            small networks is slower than one after another, and "map" keeps agents bit-identical
            whatever their neighbours do.
        max_skips: an update whose loss or gradient is not finite is skipped; after this many in a
            row the agent stays as it is. 0: no update is ever skipped.
        exact_shards: a step's sums over the batch are taken over this many shards in order (see
            `exact`), with one result on any mesh, to the bit; needs agent_map "map". 0: in the
            order of the devices.
    """

    objective: Objective
    optimizer: AdamW
    augmentation: Augment
    total_steps: int
    batch_size: int
    steps_per_call: int
    mesh: Mesh
    agent_map: str
    max_skips: int = field(default=0, kw_only=True)
    exact_shards: int = field(default=0, kw_only=True)

    @functools.cached_property
    def init(self) -> Callable[[HParams], AgentState]:
        """The compiled start: hparams with 'seed' [A] -> the agents' states at step 0."""

        def init_one(hparams: HParams) -> AgentState:
            params, aux = self.objective.init(agent_key(hparams["seed"], _INIT))
            # A second buffer: the state is donated, and a buffer can be donated only once.
            params, aux = jax.tree.map(jnp.copy, (params, aux))
            opt_state, none = self.optimizer.init(params), jnp.int32(0)
            return AgentState(none, params, aux, opt_state, none, none, none)

        return self._over_agents(init_one, donate=False)

    def _batch(
        self, state: AgentState, data: AgentData | StreamedData, seed: jax.Array
    ) -> dict[str, jax.Array]:
        """This shard's part of the global batch of one agent at this step."""
        rows, pictures = self._draw(state, data, seed)
        _, step_key = self._step_keys(state.step, seed)
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(step_key, rows)
        pictures = augment(pictures.astype(jnp.float32) / 255, keys, self.augmentation)
        images = normalize(pictures, data.mean, data.std)
        return {"image": images, "index": rows, "mean": data.mean, "std": data.std}

    def _draw(
        self, state: AgentState, data: AgentData | StreamedData, seed: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Rows i32[B] and pictures u8[B, H, W, C] of this shard."""
        if isinstance(data, StreamedData):
            at = state.step - data.first
            return data.rows[at], data.images[at]
        rows = batch_rows(agent_key(seed, _ORDER), state.step, data.rows.shape[0], self.batch_size)
        rows = data.rows[sharding.own_rows(rows)]
        return rows, data.images[rows]

    def _step_keys(self, step: jax.Array, seed: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The step's keys of the objective and of the augmentation."""
        loss_key, augment_key = jax.random.split(jax.random.fold_in(agent_key(seed, _STEP), step))
        return loss_key, augment_key

    def _gradient(
        self, state: AgentState, data: AgentData | StreamedData, hparams: HParams
    ) -> tuple[tuple[jax.Array, tuple[PyTree, Metrics]], PyTree]:
        """Loss, carried state, metrics and gradient of one agent's global batch."""
        drawn = replace(state, step=state.step + state.passed_over)
        loss_key, _ = self._step_keys(drawn.step, hparams["seed"])
        batch = self._batch(drawn, data, hparams["seed"])
        reduce = sharding.Reduce(sharding.DATA)
        gradient = jax.value_and_grad(self.objective.loss, has_aux=True)
        return gradient(state.params, state.aux, batch, loss_key, hparams, reduce)

    def _gradient_in_order(
        self, state: AgentState, data: AgentData | StreamedData, hparams: HParams
    ) -> tuple[tuple[jax.Array, tuple[PyTree, Metrics]], PyTree]:
        """The same, over `exact_shards` shards in order."""
        parts = {}
        if isinstance(data, StreamedData):  # [S, B, ...] -> [L, S, B / L, ...]
            local = self.exact_shards // self.mesh.shape[sharding.DATA]
            split = {"images": data.images, "rows": data.rows}
            parts = {name: jnp.stack(jnp.split(x, local, 1)) for name, x in split.items()}

        def of_shard(shared: Any, part: Any) -> Any:
            state, data, hparams = shared
            value, grads = self._gradient(state, replace(data, **part), hparams)
            return value, jax.tree.map(lambda g: jax.lax.pmean(g, sharding.DATA), grads)

        over_shards = exact.over_shards(of_shard, self.exact_shards, sharding.DATA)
        return over_shards((state, data, hparams), parts)

    def _step_one(
        self, state: AgentState, data: AgentData | StreamedData, hparams: HParams
    ) -> tuple[AgentState, Metrics]:
        """One update of one agent, inside shard_map."""
        gradient = self._gradient_in_order if self.exact_shards else self._gradient
        (loss, (aux, metrics)), grads = gradient(state, data, hparams)
        learning_rate, decay = self.optimizer.schedules(self.total_steps)
        rate = hparams["learning_rate"] * learning_rate(state.step + 1)
        params, opt_state = self.optimizer.update(
            grads, state.opt_state, state.params, rate, decay(state.step + 1)
        )
        with jax.named_scope("after_update"):
            aux = self.objective.after_update(params, aux, state.step, hparams)
        dot = functools.partial(jnp.vdot, precision=jax.lax.Precision.HIGHEST)
        norm = jnp.sqrt(sum(dot(g, g) for g in jax.tree.leaves(grads)))
        metrics = {"loss": loss, "grad_norm": norm, "learning_rate": rate, **metrics}
        after = replace(state, step=state.step + 1, params=params, aux=aux, opt_state=opt_state)
        return self._unless_bad(jnp.isfinite(loss) & jnp.isfinite(norm), state, after), metrics

    def _unless_bad(self, finite: jax.Array, before: AgentState, after: AgentState) -> AgentState:
        """The state after an update, or the one before if the update is to be skipped.

        Loss and gradient are those of the global batch, so all shards decide alike.
        """
        if not self.max_skips:
            return after
        good = finite & (before.in_a_row < self.max_skips)
        kept = jax.tree.map(lambda new, old: jnp.where(good, new, old), after, before)
        return replace(
            kept,
            step=after.step,
            skipped=before.skipped + ~good,
            in_a_row=jnp.where(good, 0, before.in_a_row + 1),
        )

    @functools.cached_property
    def step(
        self,
    ) -> Callable[[AgentState, AgentData | StreamedData, HParams], tuple[AgentState, Metrics]]:
        """The compiled call: (state, data, hparams) -> (state, metrics [A, S]). Donates state."""

        def steps_of_one(
            state: AgentState, data: AgentData | StreamedData, hparams: HParams
        ) -> tuple[AgentState, Metrics]:
            if not self.exact_shards:
                return jax.lax.scan(
                    lambda carry, _: self._step_one(carry, data, hparams),
                    state,
                    length=self.steps_per_call,
                )
            return exact.scan(
                lambda carry, constants, _: self._step_one(carry, *constants),
                state,
                (data, hparams),
                length=self.steps_per_call,
            )

        return self._over_agents(steps_of_one, donate=True)

    @functools.cached_property
    def encode(self) -> Callable[[AgentState, AgentData, jax.typing.ArrayLike], jax.Array]:
        """The compiled encoder: (state, data, rows i32[A, B]) -> latents f32[A, B, D]."""
        # What is not returned is not computed.
        return self._over_agents(lambda *args: self._encode_one(*args)["latent"], donate=False)

    @functools.cached_property
    def encode_all(self) -> Callable[[AgentState, AgentData, jax.Array], dict[str, jax.Array]]:
        """As `encode`, with every latent the objective names: {'latent': f32[A, B, D], ...}."""

        def flat_outputs(*args: Any) -> dict[str, jax.Array]:
            return {name: z for name, z in self._encode_one(*args).items() if z.ndim == 2}

        return self._over_agents(flat_outputs, donate=False)

    def _encode_one(
        self, state: AgentState, data: AgentData, rows: jax.Array
    ) -> dict[str, jax.Array]:
        images = gather(data.images, rows, data.mean, data.std)
        return self.objective.encode(state.params, state.aux, images)

    def __post_init__(self) -> None:
        # On several devices their unchecked types would make gradients silently wrong.
        kernels = {vit.attention for vit in vits(self.objective)} - {"xla", "auto"}
        if self.mesh.size > 1 and kernels:
            raise InputError(
                f"attention={kernels.pop()!r} runs on one device, here are {self.mesh.size}; "
                "use 'xla'"
            )
        if self.exact_shards:
            self._check_exact()

    def _check_exact(self) -> None:
        shards, data = self.exact_shards, self.mesh.shape[sharding.DATA]
        if self.agent_map != "map":
            raise InputError(f"exact_shards={shards} needs agent_map='map'")
        check_divides(shards, batch_size=self.batch_size)
        if shards % data:
            raise InputError(
                f"exact_shards={shards} cannot be shared out by {data} devices "
                f"({self.mesh.size} devices for several agents)"
            )
        if self._takes_kernels:  # which one device has and several have not
            raise InputError(f"exact_shards={shards} needs attention='xla'")
        low = any(vit.dtype == "bfloat16" for vit in vits(self.objective))
        if low and jax.default_backend() == "cpu" and jax.__version_info__ < (0, 12):
            raise InputError(
                f"exact_shards={shards} needs dtype='float32' on CPUs: with 'bfloat16' the "
                f"compiler of jax {jax.__version__} may crash (that of 0.12 does not)"
            )

    @property
    def _takes_kernels(self) -> bool:
        """Whether attention kernels, whose types say nothing of devices, may be used."""
        choices = {vit.attention for vit in vits(self.objective)} - {"xla"}
        return self.mesh.size == 1 and jax.default_backend() == "gpu" and bool(choices)

    def _over_agents(self, one: Callable[..., Any], donate: bool) -> Callable[..., Any]:
        """Lifts a function of one agent to stacked agents on the mesh."""
        loop = exact.map if self.exact_shards else jax.lax.map
        many = (
            jax.vmap(one)
            if self.agent_map == "vmap"
            else lambda *args: loop(lambda a: one(*a), args)
        )

        def sharded(*args: Any) -> Any:
            agent = P(sharding.AGENT)
            specs = tuple(a.specs() if isinstance(a, StreamedData) else agent for a in args)
            mapped = jax.shard_map(
                many,
                mesh=self.mesh,
                in_specs=specs,
                out_specs=agent,
                check_vma=not (self._takes_kernels or self.exact_shards),
            )
            return mapped(*args)

        sharded.__name__ = one.__name__  # by which a trace tells programs from each other
        return jax.jit(
            sharded,
            donate_argnums=(0,) if donate else (),
            # Else a state that was drawn, stepped or restored may have its own, and the step be
            # compiled for each.
            out_shardings=sharding.by_agent(self.mesh),
            compiler_options=exact.COMPILER_OPTIONS if self.exact_shards else None,
        )


def encode_in_batches(
    encode: Callable[..., Any],
    state: AgentState,
    data: AgentData,
    num_states: int,
    batch: int,
    check: Callable[[], None] = lambda: None,
) -> Any:
    """Encodes all states with all agents, in batches of one shape.

    Args:
        encode: `Trainer.encode` or `Trainer.encode_all`.
        state, data: of the agents.
        num_states: states N that the agents see.
        batch: states at once.
        check: called between batches.

    Returns:
        What `encode` returns, on the host, with all states in the place of a batch.
    """
    parts = []
    for start in range(0, num_states, batch):
        rows = np.minimum(np.arange(start, start + batch), num_states - 1).astype(np.int32)
        tiled = sharding.put(np.tile(rows, (len(state.step), 1)), data.rows.sharding)
        parts.append(sharding.fetch(encode(state, data, tiled)))
        check()
    return jax.tree.map(lambda *z: np.concatenate(z, axis=1)[:, :num_states], *parts)
