"""A world in motion as a data set: pairs of successive images for training, states to measure on.

Every agent walks through the world on its own: its pairs are drawn from its own seed and seen by
its own camera, so two agents have no image and no state in common.

Shape key: A agents, K cameras, N states, P pairs, F frames of a pair, B batch, L latents, M
actions, H height, W width, C channels.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from socialjepa_jax import dynamics, sharding
from socialjepa_jax.data import order
from socialjepa_jax.data.augment.colour import normalize
from socialjepa_jax.data.base import Film, Splits, ViewDataset, world_dataset
from socialjepa_jax.data.protocols import Batch, Opening
from socialjepa_jax.data.resident import HeldFeed, channel_statistics, chunks, flat_rows, from_rows
from socialjepa_jax.data.toys import motion
from socialjepa_jax.dynamics.driven import Driven
from socialjepa_jax.dynamics.gennorm import warp
from socialjepa_jax.errors import (
    InputError,
    check_in_range,
    check_inside,
    check_non_negative,
    check_one_of,
    check_positive,
)
from socialjepa_jax.keys import Stream, agent_key

TRANSITIONS = (
    "motion", "strangers", "same_picture", "photometric", "augmented_stills",
    "augmented_stills_jitter",
)  # fmt: skip
PROCESSES = ("ou", "uniform", "gennorm", "goals", "policy")
_BLOCK = 2048  # images rendered by one call
_SHIFT = 4  # pixels by which stills are shifted, at 32 pixels
_SEEN = 2  # largest change of a pixel, of 255, of a latent that a camera does not see
# Draws of a world, folded into its key.
_STATES, _WALK, _POOL, _FLICKER, _STREAM = range(5)
_VIEW = 100  # and the number of the view, for the flicker of second cameras


@dataclasses.dataclass(frozen=True)
class MotionData:
    """A rendered world whose latents follow a stationary process, seen by several cameras.

    Attributes:
        kind: "motion".
        latents, shape, occluders, private, radians: see `motion.Scene`.
        azimuths: of the cameras, degrees; one for each camera.
        elevation: of all cameras, degrees.
        image_size: H = W, pixels.
        channels: 1 or 3.
        samples_per_pixel_side: a pixel is the mean of this number squared of rays.
        flicker: standard deviation of the log gain of each image's channels; 0: a clean world.
        process: "ou" (Ornstein-Uhlenbeck) | "uniform" and "gennorm" (its monotone maps to other
            marginals) | "goals" (travels between two goals in every latent) | "policy" (the angles
            of shoulder and elbow under a policy that reaches for goals, `dynamics.joints`).
        rho: correlation of successive states, one value or one for each latent (with private
            ones).
        alpha: shape of the marginal of "gennorm".
        dependence: correlation of shoulder and elbow at one moment ("policy": of their scores).
        transition: what the two images of a pair have in common: "motion": successive states |
            "strangers": unrelated states | "same_picture" | "photometric", "augmented_stills",
            "augmented_stills_jitter": one state, whose image is changed twice by brightness and
            contrast; also by shifts; also by the world's own flicker.
        pool: pairs of an agent, rendered beforehand; 0: fresh pairs at every step.
        states: states N to measure on, half of which maps are fitted on.
        walk: steps of each agent's own walk, with known actions (process "ou" without
            dependence); 0: none.
        actions: number of actions M of the walk.
        share: share of an innovation that the actions make.
        splits: `test_states` of the N states are held out; there are no objects to hold out.
        seed: of states and actions; the seeds of the agents draw their pairs.
    """

    kind: str = "motion"
    latents: tuple[str, ...] = ("x", "y", "yaw")
    shape: str = "toy"
    occluders: int = 0
    private: bool = False
    radians: tuple[float, ...] = ()
    azimuths: tuple[float, ...] = (-80.0, 80.0)
    elevation: float = 45.0
    image_size: int = 32
    channels: int = 3
    samples_per_pixel_side: int = 1
    flicker: float = 0.25
    process: str = "ou"
    rho: tuple[float, ...] = (0.9,)
    alpha: float = 2.0
    dependence: float = 0.0
    transition: str = "motion"
    pool: int = 12_000
    states: int = 4_000
    walk: int = 3_000
    actions: int = 3
    share: float = 0.3
    splits: Splits = Splits(test_instances=0, test_states=0.5)
    seed: int = 0

    def __post_init__(self) -> None:
        check_one_of(("motion",), kind=self.kind)
        _ = self.scene  # checks its fields
        check_one_of((1, 3), channels=self.channels)
        check_one_of(PROCESSES, process=self.process)
        check_one_of(TRANSITIONS, transition=self.transition)
        check_positive(image_size=self.image_size, states=self.states, alpha=self.alpha)
        check_non_negative(pool=self.pool, walk=self.walk, flicker=self.flicker, seed=self.seed)
        check_in_range(1, 16, samples_per_pixel_side=self.samples_per_pixel_side)
        check_inside(0.0, 90.0, elevation=self.elevation)
        if not self.azimuths or len(set(self.azimuths)) < len(self.azimuths):
            raise InputError(f"azimuths={self.azimuths} must be one or more distinct angles")
        for rho in self.rho:
            check_inside(0.0, 1.0, rho=rho)
        if len(self.rho) not in (1, self.num_latents):
            raise InputError(f"rho={self.rho} must be 1 or {self.num_latents} correlations")
        if (self.process == "policy" or self.dependence) and self.state_names != motion.ARM:
            raise InputError(
                f"latents={self.state_names} must be {motion.ARM} for process={self.process!r} "
                f"with dependence={self.dependence}"
            )
        if self.dependence:
            check_one_of(("ou", "policy"), process=self.process)
            check_inside(-1.0, 1.0, dependence=self.dependence)
        if self.splits.test_instances:
            raise InputError(
                f"splits.test_instances={self.splits.test_instances} must be 0: no objects"
            )
        check_in_range(1, self.num_latents, actions=self.actions)
        Driven(self.num_latents, self.actions, self.share)

    @property
    def num_cameras(self) -> int:
        """K."""
        return len(self.azimuths)

    @property
    def scene(self) -> motion.Scene:
        """The objects that move, and the latents that move them."""
        return motion.Scene(self.latents, self.shape, self.occluders, self.private, self.radians)

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the latents, private ones last."""
        private = range(self.num_cameras) if self.private else ()
        return (*self.latents, *(f"private_{k}" for k in private))

    @property
    def num_latents(self) -> int:
        """L, private ones included."""
        return len(self.state_names)

    @property
    def latents_in_view(self) -> int:
        """Number of latents that one camera sees: the shared ones and a private one of its own."""
        return len(self.latents) + self.private

    @property
    def pair_shape(self) -> tuple[int, int, int, int]:
        """(F, H, W, C): two frames, or one where both images of a pair are made of it."""
        frames = 2 if self.transition in ("motion", "strangers") else 1
        return frames, self.image_size, self.image_size, self.channels

    @property
    def stage(self) -> motion.Stage:
        """The map from states to images."""
        return motion.Stage(
            self.scene, self.azimuths, self.elevation, self.image_size, self.channels,
            self.samples_per_pixel_side,
        )  # fmt: skip

    @property
    def dynamics(self) -> tuple[dynamics.Process, Any]:
        """The process of the latents and its arrays."""
        if self.process == "policy" or self.dependence:
            process: Any = dynamics.JointAngles()
            policy = self.process == "policy"
            return process, process.params(self.rho, policy=policy, dependence=self.dependence)
        if self.process == "ou":
            process = dynamics.OrnsteinUhlenbeck(self.num_latents)
            return process, process.params(self.rho)
        if self.process == "goals":
            process = dynamics.GoalSeeking(self.num_latents)
            return process, process.params(self.rho)
        alpha = 100.0 if self.process == "uniform" else self.alpha
        process = dynamics.Copula(self.num_latents)
        return process, process.params(self.rho, alpha)

    def load(self, cache_dir: pathlib.Path) -> ViewDataset:
        """Renders the states that are measured on, as all cameras see them.

        Args:
            cache_dir: unused; rendering is cheaper than reading.

        Raises:
            InputError: a latent is seen by no camera.
        """
        del cache_dir
        self._check_seen()
        key = jax.random.fold_in(jax.random.key(self.seed), _STATES)
        process, params = self.dynamics
        states = np.asarray(process.stationary(params, key, self.states))
        keys = jax.random.split(jax.random.fold_in(key, _FLICKER), self.num_cameras)
        images = [self.photograph(states, k, keys[k]) for k in range(self.num_cameras)]
        return world_dataset(self.kind, np.stack(images), states, self.state_names, self.splits)

    def photograph(
        self,
        states_NL: np.ndarray,
        camera: int,
        key: jax.Array,
        strength: float | None = None,
        block: int | None = None,
    ) -> np.ndarray:
        """Renders states as one camera sees them, each with its own flicker.

        Args:
            states_NL: f32[N, L].
            camera: number of the camera.
            key: of the flicker.
            strength: of the flicker; default: that of the world.
            block: images rendered by one call, the last ones repeated; a program for each size.
                Default: many, for a program that all runs share.

        Returns:
            uint8 [N, H, W, C].
        """
        strength = self.flicker if strength is None else strength
        block = block or _BLOCK
        keys_N = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, np.arange(len(states_NL)))
        blocks = []
        states_NL = np.asarray(states_NL, np.float32)
        for first in range(0, len(states_NL), block):
            rows = np.minimum(np.arange(first, first + block), len(states_NL) - 1)
            shot = _shoot(
                self.stage, jnp.float32(strength), states_NL[rows], jnp.int32(camera), keys_N[rows]
            )
            blocks.append(np.asarray(shot))
        return np.concatenate(blocks)[: len(states_NL)]

    def film(self, frames: int = 40) -> Film:
        """Renders one trajectory as all cameras see it, with flicker and without.

        Args:
            frames: T.
        """
        key = jax.random.fold_in(jax.random.key(self.seed), _WALK)
        states = np.asarray(self._trajectory(key, frames - 1))
        keys = jax.random.split(key, self.num_cameras)
        shots = [
            np.stack([self.photograph(states, k, keys[k], s) for k in range(self.num_cameras)])
            for s in (self.flicker, 0.0)
        ]
        return Film(shots[0], states, shots[1])

    def _trajectory(self, key: jax.Array, steps: int) -> jax.Array:
        """Draws one trajectory of the process: f32[steps + 1, L]."""
        process, params = self.dynamics
        if not isinstance(process, dynamics.GoalSeeking):
            driven = Driven(self.num_latents, self.actions, self.share, self.seed)
            states = driven.walk(self._rho, key, steps)[0]
            if isinstance(process, dynamics.JointAngles):
                return process.angles(params, states)
            return warp(params["warp"], states) if "warp" in params else states

        def step(z_1L: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
            z_1L = process.transition(params, key, z_1L)
            return z_1L, z_1L[0]

        keys = jax.random.split(key, steps + 1)
        first_1L = process.stationary(params, keys[0], 1)
        return jnp.concatenate([first_1L, jax.lax.scan(step, first_1L, keys[1:])[1]])

    @property
    def _rho(self) -> jax.Array:
        return jnp.broadcast_to(jnp.asarray(self.rho, jnp.float32), (self.num_latents,))

    def _check_seen(self) -> None:
        """Checks that some camera sees every shared latent move a pixel."""
        count = len(self.latents)
        offsets = np.concatenate([np.eye(self.num_latents)[:count] * side for side in (-1, 1)])
        key = jax.random.key(0)
        views = [self.photograph(offsets, k, key, 0.0) for k in range(self.num_cameras)]
        for index, name in enumerate(self.latents):
            moved = [np.abs(v[index].astype(int) - v[index + count]).max() for v in views]
            if max(moved) <= _SEEN:
                raise InputError(f"latents: no camera sees {name!r}")

    def open_feed(self, dataset: ViewDataset, opening: Opening) -> "MotionFeed":
        """Opens the feed of a run; see `data.protocols.Data`."""
        return MotionFeed(self, dataset, opening)


@functools.partial(jax.jit, static_argnums=0)
def _shoot(
    stage: motion.Stage, strength: jax.Array, z_BL: jax.Array, camera: jax.Array, keys_B: jax.Array
) -> jax.Array:
    """Renders states with their flicker: uint8 [B, H, W, C]; one program for all cameras."""
    return motion.quantise(motion.flicker(stage.render(z_BL, camera), keys_B, strength))


class PairData(Protocol):
    """What feeds and sources ask of a world in motion."""

    @property
    def image_size(self) -> int:
        """H = W."""
        ...

    @property
    def flicker(self) -> float:
        """See `MotionData`."""
        ...

    @property
    def transition(self) -> str:
        """See `MotionData`."""
        ...

    @property
    def pool(self) -> int:
        """Pairs of an agent."""
        ...

    @property
    def pair_shape(self) -> tuple[int, int, int, int]:
        """(F, H, W, C)."""
        ...


@dataclasses.dataclass(frozen=True)
class _MotionSource:
    """The part of a `Source` that pools and streams share.

    Attributes:
        mean, std: f32[A, C], pixel statistics on the scale [0, 1].
        data: the world.
    """

    mean: jax.Array
    std: jax.Array
    data: PairData

    def specs(self) -> Self:
        """Returns the shardings: every array is split over agents and replicated over 'data'."""
        return jax.tree.map(lambda _: P(sharding.AGENT), self)

    def _batch(self, frames_BFHWC: jax.Array, key: jax.Array, index_B: jax.Array) -> Batch:
        """Makes the batch of frames on the scale [0, 1], on pixel statistics of one agent."""
        first, second = _pair(self.data, frames_BFHWC, key, index_B)
        return {
            "image": normalize(first, self.mean, self.std),
            "next": normalize(second, self.mean, self.std),
            "index": index_B,
            "mean": self.mean,
            "std": self.std,
        }


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["pixels", "mean", "std"],
    meta_fields=["data"],
)
@dataclasses.dataclass(frozen=True)
class MotionPool(_MotionSource):
    """The pairs of each agent, rendered beforehand; a `Source`.

    Attributes:
        pixels: u8[A, P, F H W C], rows as in `ResidentImages`; two frames, or one where both images
            of a pair are made of it.
    """

    pixels: jax.Array

    @property
    def frames(self) -> jax.Array:
        """Returns the frames u8[..., P, F, H, W, C]."""
        return from_rows(self.pixels, self.data.pair_shape)

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns this shard's pairs: 'image' and 'next'; see `data.protocols.Source`."""
        key = agent_key(seed, Stream.ORDER)
        index = sharding.own_rows(order.batch_rows(key, step, len(self.pixels), batch_size))
        pixels = from_rows(self.pixels[index], self.data.pair_shape)
        frames = pixels.astype(jnp.float32) / 255
        draw = jax.random.fold_in(agent_key(seed, Stream.STEP), step)
        return self._batch(frames, jax.random.fold_in(draw, 2), index)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["camera", "mean", "std"],
    meta_fields=["data", "view"],
)
@dataclasses.dataclass(frozen=True)
class MotionStream(_MotionSource):
    """Fresh pairs, drawn and rendered inside the step; a `Source`.

    Attributes:
        camera: i32[A].
        view: see `Opening`.
    """

    data: MotionData
    camera: jax.Array
    view: int = 0

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns this shard's pairs: 'image' and 'next'; see `data.protocols.Source`."""
        key = jax.random.fold_in(agent_key(seed, Stream.WORLD), _STREAM)
        key = jax.random.fold_in(key, step)
        index = sharding.own_rows(jnp.arange(batch_size))
        count = self.data.pair_shape[0]
        states_FBL = [sharding.own_rows(z) for z in _draw(self.data, key, batch_size)[:count]]
        fold_in = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
        own = jax.random.fold_in(key, _VIEW + self.view) if self.view else key
        keys_FB = [fold_in(jax.random.fold_in(own, number), index) for number in range(count)]
        # All frames at once: the renderer is most of what there is to compile.
        images = self.data.stage.render(jnp.concatenate(states_FBL), self.camera)
        images = motion.flicker(images, jnp.concatenate(keys_FB), self.data.flicker)
        frames = motion.quantise(images).astype(jnp.float32) / 255
        frames_BFHWC = jnp.stack(jnp.split(frames, count), axis=1)
        return self._batch(frames_BFHWC, jax.random.fold_in(key, 2), index)


def _draw(data: MotionData, key: jax.Array, num: int) -> tuple[jax.Array, jax.Array]:
    """Draws the states f32[num, L] of both frames of pairs."""
    process, params = data.dynamics
    first, second = process.views(params, key, num)
    return first, (jnp.roll(second, 1, axis=0) if data.transition == "strangers" else second)


def _pair(
    data: PairData, frames_BFHWC: jax.Array, key: jax.Array, index_B: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns both images f32[B, H, W, C] of every pair, of its two frames or of its one."""
    if frames_BFHWC.shape[1] == 2:
        return frames_BFHWC[:, 0], frames_BFHWC[:, 1]
    still = frames_BFHWC[:, 0]
    if data.transition == "same_picture":
        return still, still
    keys_B = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index_B)
    change = jax.vmap(functools.partial(_change, data))
    views = [
        change(still, jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys_B, view))
        for view in (0, 1)
    ]
    return views[0], views[1]


def _change(data: PairData, image_HWC: jax.Array, key: jax.Array) -> jax.Array:
    """Augments one still as `data.transition` says."""
    shift, light, jitter = jax.random.split(key, 3)
    if data.transition != "photometric":
        most = _SHIFT * data.image_size // 32
        padded = jnp.pad(image_HWC, ((most, most), (most, most), (0, 0)), mode="edge")
        corner = jax.random.randint(shift, (2,), 0, 2 * most + 1)
        image_HWC = jax.lax.dynamic_slice(padded, (*corner, 0), image_HWC.shape)
    if data.transition == "augmented_stills_jitter":
        image_HWC = motion.flicker(image_HWC[None], jitter[None], data.flicker)[0]
    brightness, contrast = jax.random.uniform(light, (2,), minval=0.6, maxval=1.4)
    mean = image_HWC.mean()
    return jnp.clip((image_HWC * brightness - mean) * contrast + mean, 0.0, 1.0)


class PoolFeed(HeldFeed):
    """Feeds pairs of successive images made beforehand; see `data.protocols.ImageFeed`."""

    def __init__(self, data: PairData, dataset: ViewDataset, opening: Opening) -> None:
        """Makes the pairs of all agents.

        Args:
            data: the world.
            dataset: its states.
            opening: the run's needs.

        Raises:
            InputError: the pool is smaller than a batch.
        """
        if data.pool and data.pool < opening.batch_size:
            raise InputError(
                f"config.data.pool={data.pool} is less than config.run.batch_size="
                f"{opening.batch_size}"
            )
        super().__init__(np.asarray(dataset.images), opening)
        self._data = data
        self._seeds = [int(seed) for seed in sharding.fetch(opening.seeds)]
        self._put = functools.partial(sharding.put, sharding=sharding.by_agent(opening.mesh))
        frames = [self._frames(k) for k in range(len(self.cameras))]
        statistics = [channel_statistics(f[:, 0]) for f in frames]
        self.mean, self.std = (self._put(np.stack(part)) for part in zip(*statistics))
        self._source = self._open(frames)

    def _frames(self, agent: int) -> np.ndarray:
        """Makes the frames u8[P, F, H, W, C] of an agent's pairs."""
        raise NotImplementedError

    def _open(self, frames: list[np.ndarray]) -> MotionPool | MotionStream:
        """Puts the frames of all agents on the devices."""
        return MotionPool(self.mean, self.std, self._data, self._put(flat_rows(np.stack(frames))))

    def pool_key(self, agent: int) -> jax.Array:
        """Returns the key of an agent's pairs."""
        return self._key(agent, _POOL)

    def _key(self, agent: int, draw: int) -> jax.Array:
        return jax.random.fold_in(agent_key(self._seeds[agent], Stream.WORLD), draw)


class MotionFeed(PoolFeed):
    """Feeds a world in motion; see `data.protocols.WalkFeed`.

    Attributes:
        walks: u8[A, walk + 1, H, W, C], each agent's own walk through its own camera; None without
            a walk and in worlds that actions do not drive.
        actions: f32[A, walk, M], of the walks; None like them.
        rho: f64[L], correlation of successive states.
    """

    _data: MotionData

    def __init__(self, data: MotionData, dataset: ViewDataset, opening: Opening) -> None:
        """Renders the pairs and the walks of all agents; see `PoolFeed`."""
        super().__init__(data, dataset, opening)
        self.walks: np.ndarray | None = None
        self.actions: np.ndarray | None = None
        self.rho = np.broadcast_to(np.asarray(data.rho, np.float64), (data.num_latents,))
        if data.walk and data.process == "ou" and not (data.dependence or opening.view):
            walks = [self._walk(k) for k in range(len(self.cameras))]
            self.walks, self.actions = (np.stack(part) for part in zip(*walks))

    def _open(self, frames: list[np.ndarray]) -> MotionPool | MotionStream:
        """Puts the frames of all agents on the devices, or what makes fresh ones there."""
        if self._data.pool:
            return super()._open(frames)
        cameras = self._put(np.array(self.cameras, np.int32))
        return MotionStream(self.mean, self.std, self._data, cameras, self._opening.view)

    def _frames(self, agent: int) -> np.ndarray:
        """Renders the frames u8[P, F, H, W, C] of an agent's pairs."""
        key, data, frames = self.pool_key(agent), self._data, []
        for number, z in enumerate(self.pool_states(agent)):
            flicker = jax.random.fold_in(jax.random.fold_in(key, _FLICKER), number)
            if self._opening.view:
                flicker = jax.random.fold_in(flicker, _VIEW + self._opening.view)
            frames.append(data.photograph(z, self.cameras[agent], flicker))
            self._opening.check()
        return np.stack(frames, axis=1)

    def pool_states(self, agent: int) -> np.ndarray:
        """Returns the states of the frames of an agent's pairs: f32[F, P, L]."""
        data = self._data
        states = _draw(data, self.pool_key(agent), data.pool or _BLOCK)
        return np.stack([np.asarray(z) for z in states[: data.pair_shape[0]]])

    def _walk(self, agent: int) -> tuple[np.ndarray, np.ndarray]:
        """Renders an agent's walk: images and actions."""
        key, data = self._key(agent, _WALK), self._data
        driven = Driven(data.num_latents, data.actions, data.share, data.seed)
        states, actions = (np.asarray(x) for x in driven.walk(data._rho, key, data.walk))
        flicker = jax.random.fold_in(key, _FLICKER)
        return data.photograph(states, self.cameras[agent], flicker), actions

    def walked(self) -> Iterator[np.ndarray]:
        """Yields the images of the walks in chunks, like `states`."""
        assert self.walks is not None
        return chunks(list(self.walks), self._opening.chunk, self._opening.check)
