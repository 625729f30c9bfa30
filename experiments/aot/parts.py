"""The library's device programs beside the training steps, lowered for devices that are not there.

Alignment (moments, distances, neighbours, retrieval), SIGReg, the renderer of the moving world,
augmentation and a sweep of small runs, each at the size at which it is published or timed, from
shapes alone: nothing is run, and no array of data is made.

Without a program: the fits (`alignment.solve`: ridge, least squares, Procrustes, reduced rank) are
LAPACK in float64 on the host, and so are the ranks of at most 4,096 points, of which only the
distances come from a device.

`Part.flops` counts matrix products as model FLOPs do. The characteristic functions of SIGReg, the
rays of the renderer and the histogram of distances are elementwise work on top of it.

Shape key: N samples, D features, B batch or rows of a block, S blocks, A agents.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from experiments.aot.targets import traced_for
from experiments.bench import sigreg as sigreg_bench
from experiments.bench import sweep as sweep_bench
from experiments.identifiability import sweep
from socialjepa_jax import sharding
from socialjepa_jax.alignment import moments as moments_lib
from socialjepa_jax.alignment import neighbourhoods
from socialjepa_jax.alignment.distances import compare, neighbors, on_accelerator
from socialjepa_jax.data import MotionData
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.data.toys import moving
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.errors import check_divides, check_positive
from socialjepa_jax.identifiability.mixings import Spiral
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.models.mlp import MLPConfig
from socialjepa_jax.objectives.pairs import Pairs
from socialjepa_jax.performance import flops
from socialjepa_jax.sigreg import epps_pulley, sigreg

ROWS = "rows"  # axis of the alignment's meshes
CELLS = 1 << 16  # of a table of bins, see `histogram`


@dataclass(frozen=True)
class Part:
    """A lowered program.

    Attributes:
        program: as jax lowers it.
        flops: FLOPs of the matrix products of one call, of all its steps, on one chip.
        calls: steps of a call.
    """

    program: jax.stages.Lowered
    flops: float
    calls: int = 1

    def __post_init__(self) -> None:
        check_positive(calls=self.calls)


def moments(devices: list[jax.Device], *, rows: int, dim: int) -> Part:
    """`Moments.sharded` of float32 latents [N, D] on both sides, in float64.

    Raises:
        InputError: the rows cannot be split evenly over the devices.
    """
    check_divides(len(devices), rows=rows)
    mesh = _mesh(devices)
    with jax.enable_x64(True):
        z_ND = _array(mesh, jnp.float32, (rows, dim), P(ROWS))
        traced = moments_lib._sharded_sums.trace(z_ND, z_ND, mesh, moments_lib.BLOCK_ROWS)
        return Part(traced.lower(), flops.count(traced.jaxpr) / mesh.size)


def distances(
    devices: list[jax.Device],
    *,
    rows: int,
    dim: int,
    ks: tuple[int, ...] = (),
    bins: int = compare.BINS,
) -> Part:
    """One call of `compare` on accelerators: histogram of distances, and common neighbours for ks.

    A call handles as many blocks of rows as its int32 counts allow; `compare` of 50,000 rows makes
    two. The float64 products of rows whose order float32 leaves open, which are rare, are not in
    the FLOPs.
    """
    mesh, (n, d) = _mesh(devices), _padded(rows, dim)
    loose = jax.ShapeDtypeStruct  # as `compare` makes them: on no device in particular
    with jax.enable_x64(True):
        fine = loose((n, d), jnp.float64)
        coarse = loose((n, d), jnp.float32) if bins else fine
        table = (loose((), jnp.int32), loose((), jnp.float32), loose((CELLS,), jnp.int16))
        _, side = neighbors.row_blocks(n).shape
        most = max(1, on_accelerator._MAX_PAIRS // (side * n) // mesh.size) * mesh.size
        blocks = -(-rows // side)
        blocks = min(most, blocks + -blocks % mesh.size)
        blocks_SB = _array(mesh, jnp.int64, (blocks, side), P(ROWS))
        space, tables = (coarse, fine), [table] * 2 if bins else []
        traced = on_accelerator._sums.trace(
            space, space, blocks_SB, rows, tables, ks, bins, mesh if mesh.size > 1 else None
        )
        products = 2 * 2.0 * blocks * side * n * d  # 2 FLOPs in each of 2 spaces
        return Part(traced.lower(), products / mesh.size)


def nearest(devices: list[jax.Device], *, rows: int, dim: int, k: int = 10) -> Part:
    """`nearest_neighbors` in float64, which uses one device: here each does the whole work."""
    mesh, shape = _mesh(devices), _padded(rows, dim)
    with jax.enable_x64(True):
        blocks_SB = _array(mesh, jnp.int64, neighbors.row_blocks(shape[0]).shape)
        z_ND = _array(mesh, jnp.float64, shape)
        traced = neighbourhoods._nearest_rows.trace(z_ND, blocks_SB, rows, k)
        return Part(traced.lower(), flops.count(traced.jaxpr))


def retrieval(devices: list[jax.Device], *, rows: int, dim: int, queries: int = 256) -> Part:
    """Ranks of a block of queries in `match_ranks`, in float64; each device does the whole work."""
    mesh = _mesh(devices)
    with jax.enable_x64(True):
        traced = neighbourhoods._count_closer.trace(
            _array(mesh, jnp.float64, (queries, dim)),
            _array(mesh, jnp.float64, (rows, dim)),
            _array(mesh, jnp.int64, (queries,)),
        )
        return Part(traced.lower(), flops.count(traced.jaxpr))


def regularizer(
    devices: list[jax.Device], *, rows: int, slices: int, knots: int, dim: int = 512
) -> Part:
    """SIGReg and its gradient with respect to embeddings [N, D], split over 'data'.

    Args:
        devices: of the mesh.
        rows: N.
        slices: directions M.
        knots: on the full line, as in LeJEPA's table 6.
        dim: D.

    Raises:
        InputError: the rows cannot be split evenly over the devices.
    """
    mesh, spread = sharding.make_mesh(1, rows, devices), P(sharding.DATA)
    statistic = functools.partial(epps_pulley, t_max=5.0, num_knots=knots // 2 + 1)
    loss = functools.partial(sigreg, statistic=statistic, axis_name=sharding.DATA)
    step = jax.shard_map(
        jax.value_and_grad(loss), mesh=mesh, in_specs=(spread, P()), out_specs=(P(), spread)
    )
    z_ND = _array(mesh, jnp.float32, (rows, dim), spread)
    directions_DM = _array(mesh, jnp.float32, (dim, slices))
    return _part(devices, step, z_ND, directions_DM)


def motion_stream(
    devices: list[jax.Device], *, batch: int = 256, image_size: int = 64, agents: int = 2
) -> Part:
    """A batch of fresh pairs of every agent, drawn and rendered as in a step of motion_vits.

    Raises:
        InputError: the batch cannot be split evenly over the devices.
    """
    mesh = sharding.make_mesh(agents, batch, devices)
    data, by_agent = MotionData(image_size=image_size, pool=0), P(sharding.AGENT)

    def of_agent(dtype: Any, *sides: int) -> Any:
        return _array(mesh, dtype, (agents, *sides), by_agent)

    channels = of_agent(jnp.float32, data.channels)
    source = moving.MotionStream(channels, channels, data, of_agent(jnp.int32))

    def draw(source: moving.MotionStream, step: jax.Array, seed_A: jax.Array) -> Any:
        one = jax.vmap(lambda own, seed: own.batch(step, seed, batch))(source, seed_A)
        return one["image"], one["next"]

    program = jax.shard_map(
        draw,
        mesh=mesh,
        in_specs=(source.specs(), P(), by_agent),
        out_specs=P(sharding.AGENT, sharding.DATA),
    )
    return _part(devices, program, source, _array(mesh, jnp.int32, ()), of_agent(jnp.uint32))


def motion_pool(
    devices: list[jax.Device], *, images: int = moving._BLOCK, image_size: int = 32
) -> Part:
    """A block of images of a pool or a test set; each device does the whole work."""
    mesh, data = _mesh(devices), MotionData(image_size=image_size)
    keys_B = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), images))
    arguments = (
        _array(mesh, jnp.float32, ()),
        _array(mesh, jnp.float32, (images, data.num_latents)),
        _array(mesh, jnp.int32, ()),
        _array(mesh, keys_B.dtype, (images,)),
    )
    with traced_for(devices):
        traced = moving._shoot.trace(data.stage, *arguments)
        return Part(traced.lower(), flops.count(traced.jaxpr))


def crops(
    devices: list[jax.Device],
    *,
    batch: int = 256,
    image_size: int = 224,
    views: MultiCrop = MultiCrop(),  # noqa: B008
) -> Part:
    """2 + 6 views of a batch of colour images, split over 'data'.

    The FLOPs are those of the crops' and the blur's products, `crop_flops`; model FLOPs leave them
    out (`performance.flops`).

    Raises:
        InputError: the batch cannot be split evenly over the devices.
    """
    mesh, spread = sharding.make_mesh(1, batch, devices), P(sharding.DATA)
    names = ("image", "index", "mean", "std")

    def make(key: jax.Array, *fields: jax.Array) -> tuple[jax.Array, ...]:
        return views(dict(zip(names, fields, strict=True)), key)

    program = jax.shard_map(
        make, mesh=mesh, in_specs=(P(), spread, spread, P(), P()), out_specs=spread
    )
    channels = _array(mesh, jnp.float32, (3,))
    arguments = (
        _array(mesh, jax.eval_shape(lambda: jax.random.key(0)).dtype, ()),
        _array(mesh, jnp.float32, (batch, image_size, image_size, 3), spread),
        _array(mesh, jnp.int32, (batch,), spread),
        channels,
        channels,
    )
    with traced_for(devices):
        lowered = jax.jit(program).lower(*arguments)
    return Part(lowered, batch / len(devices) * crop_flops(views, image_size))


def crop_flops(views: MultiCrop, image_size: int, channels: int = 3) -> float:
    """FLOPs of the products that make the views of a square image.

    A crop of side s from side H multiplies by [s, H] and [s, W]; a blur, made for every image and
    kept for some, by two [s, s].
    """

    def of(config: Any, side: int) -> float:
        crop = image_size**2 * side + image_size * side**2
        blur = 2 * side**3 if config.colours.blur else 0
        return 2.0 * channels * (crop + blur)

    half = (views.global_views + 1) // 2
    globals_ = half * of(views.view_a, image_size)
    globals_ += (views.global_views - half) * of(views.view_b, image_size)
    return globals_ + views.local_views * of(views.local, views.local_size)


def grid(
    devices: list[jax.Device],
    *,
    runs: int = sweep_bench.GRID_RUNS,
    steps: int = 500,
    batch: int = sweep_bench.BATCH,
    hidden: int = sweep_bench.HIDDEN,
) -> Part:
    """The grid of the identifiability paper: all its runs as the agents of one program.

    A device count that shares no factor with the runs splits the batch of every run instead.
    Products are in full float32, as in `sweep.train`.

    Args:
        devices: of the mesh.
        runs: agents A.
        steps: of a call.
        batch: pairs of a run and step.
        hidden: width of the MLP.

    Raises:
        InputError: the batch cannot be split evenly over the devices that share a run.
    """
    preset, process = sweep.PRESETS["code"], OrnsteinUhlenbeck(2)
    world = LatentWorld(process, Spiral(), preset.noised)
    encoder = MLPConfig(hidden=hidden, layers=sweep_bench.LAYERS)
    trainer = sweep.make_trainer(
        world, Pairs(encoder, num_slices=sweep_bench.SLICES), sweep.published_optimizer(preset),
        runs, steps=steps, batch_size=batch, steps_per_call=steps, agent_map="vmap",
        devices=devices,
    )  # fmt: skip
    place, scalars = sharding.by_agent(trainer.mesh), ("lambda", "sigma", "learning_rate")
    one = jax.eval_shape(lambda: world.params(process.params(sweep_bench.RHO), 0))

    def placed(leaf: Any, *lead: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*lead, *leaf.shape), leaf.dtype, sharding=place)

    worlds = sweep.Worlds(jax.tree.map(lambda leaf: placed(leaf, runs), one), world)
    dtypes = {"seed": jnp.uint32, "total_steps": jnp.int32} | dict.fromkeys(scalars, jnp.float32)
    hparams = {name: placed(jax.ShapeDtypeStruct((runs,), t)) for name, t in dtypes.items()}
    with jax.default_matmul_precision("highest"), traced_for(devices):
        state = jax.tree.map(placed, jax.eval_shape(trainer.init, hparams))
        traced = trainer.step.trace(state, worlds, hparams)  # type: ignore[attr-defined]
        return Part(traced.lower(), flops.count(traced.jaxpr) / len(devices), steps)


def _mesh(devices: list[jax.Device]) -> Mesh:
    """All devices in one axis of rows."""
    return Mesh(np.asarray(devices), (ROWS,), axis_types=(AxisType.Auto,))


def _array(
    mesh: Mesh, dtype: Any, shape: tuple[int, ...], spec: P | None = None
) -> jax.ShapeDtypeStruct:
    """Shape and dtype of an array on a mesh, by default the same on all devices."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec or P()))


def _padded(rows: int, dim: int) -> tuple[int, int]:
    """Shape of `neighbors.padded` latents."""
    return (
        rows + -rows % neighbors._ROW_MULTIPLE,
        dim + -dim % neighbors._FEATURE_MULTIPLE,
    )


def _part(devices: list[jax.Device], function: Callable[..., Any], *arguments: Any) -> Part:
    """Lowers a function that is spread over all devices."""
    with traced_for(devices):
        traced = jax.jit(function).trace(*arguments)
        return Part(traced.lower(), flops.count(traced.jaxpr) / len(devices))


PARTS: dict[str, Callable[..., Part]] = {
    "moments_1m_1024": functools.partial(moments, rows=1_000_000, dim=1024),
    "moments_50k_384": functools.partial(moments, rows=50_000, dim=384),
    "dsc_50k_384": functools.partial(distances, rows=50_000, dim=384),
    "dsc_nos_50k_384": functools.partial(distances, rows=50_000, dim=384, ks=(10,)),
    "neighbors_50k_384": functools.partial(nearest, rows=50_000, dim=384),
    "retrieval_50k_384": functools.partial(retrieval, rows=50_000, dim=384),
    **{
        f"sigreg_{n}_{m}_{k}": functools.partial(regularizer, rows=n, slices=m, knots=k)
        for n, m, k, _ in sigreg_bench.TABLE6
    },
    "motion_stream_64": motion_stream,
    "motion_pool_32": motion_pool,
    "crops_2_6_224": crops,
    "sweep_189": grid,
}
