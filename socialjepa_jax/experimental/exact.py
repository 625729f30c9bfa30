"""Runs with one result on any number of devices and processes, to the last bit."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from socialjepa_jax import loop, sharding
from socialjepa_jax.agents import AgentState, Gradient, Trainer
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.protocols import Source
from socialjepa_jax.errors import InputError, check_divides, check_positive
from socialjepa_jax.experimental import exact_sums
from socialjepa_jax.models.vit import vits
from socialjepa_jax.objectives.base import HParams
from socialjepa_jax.running.hosts import ALONE, Group


@dataclass(frozen=True)
class ExactTrainer(Trainer):
    """A `Trainer` whose runs have the same bits on any mesh: for tests, and to find differences.

    Slower and larger than `Trainer`; proven on CPUs.

    Attributes:
        shards: into how many shards a batch is cut whose sums are added in order; a multiple of
            the devices on the 'data' axis. Needs agent_map "map".
    """

    shards: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        devices = self.mesh.shape[sharding.DATA]
        if self.agent_map != "map":
            raise InputError(f"shards={self.shards} needs agent_map='map'")
        check_positive(shards=self.shards)
        check_divides(self.shards, batch_size=self.batch_size)
        if self.shards % devices:
            raise InputError(
                f"shards={self.shards} cannot be shared out by {devices} devices "
                f"({self.mesh.size} devices for several agents)"
            )
        if self._takes_kernels:  # which one device has and several have not
            raise InputError(f"shards={self.shards} needs attention='xla'")
        low = any(vit.dtype == "bfloat16" for vit in vits(self.objective))
        if low and jax.default_backend() == "cpu" and jax.__version_info__ < (0, 12):
            raise InputError(
                f"shards={self.shards} needs dtype='float32' on CPUs: with 'bfloat16' the "
                f"compiler of jax {jax.__version__} may crash (that of 0.12 does not)"
            )

    def _gradient(self, state: AgentState, source: Source, hparams: HParams) -> Gradient:
        """The gradient over `shards` shards in order."""
        leaves, structure = jax.tree.flatten(source)
        local = self.shards // self.mesh.shape[sharding.DATA]
        parts = {}
        for i, spec in enumerate(jax.tree.leaves(source.specs())):
            if sharding.DATA in spec:  # its axis, without the agent axis, holds L shards here
                split = jnp.split(leaves[i], local, tuple(spec).index(sharding.DATA) - 1)
                parts[i] = jnp.stack(split)

        def of_shard(shared: Any, part: Any) -> Any:
            state, leaves, hparams = shared
            own = [part.get(i, leaf) for i, leaf in enumerate(leaves)]
            source = jax.tree.unflatten(structure, own)
            value, grads = Trainer._gradient(self, state, source, hparams)
            return value, jax.tree.map(lambda g: jax.lax.pmean(g, sharding.DATA), grads)

        lifted = exact_sums.over_shards(of_shard, self.shards, sharding.DATA)
        return lifted((state, leaves, hparams), parts)

    def _scan(self, step: Callable[..., Any], state: AgentState, constants: tuple) -> Any:
        def body(carry: AgentState, constants: tuple, _: jax.Array) -> Any:
            return step(carry, *constants)

        return exact_sums.scan(body, state, constants, self.steps_per_call)

    def _map(self, one: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: exact_sums.map(lambda a: one(*a), args)

    _check_vma = False
    compiler_options = exact_sums.COMPILER_OPTIONS


def fit(
    experiment: Experiment, workdir: pathlib.Path, shards: int, group: Group = ALONE
) -> loop.Result:
    """Trains like `loop.fit`, with one result on any number of devices and processes.

    Args:
        experiment: as for `loop.fit`; its agents are mapped one after another.
        workdir: the run's folder, only ever used with one number of shards.
        shards: see `ExactTrainer`.
        group: the processes of the run.
    """
    run = dataclasses.replace(experiment.run, agent_map="map")
    experiment = dataclasses.replace(experiment, run=run)
    make = functools.partial(ExactTrainer, shards=shards)
    return loop.fit(experiment, workdir, group=group, trainer_class=make)
