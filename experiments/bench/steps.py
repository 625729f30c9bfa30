"""Training steps on random images and their times, shared by the benchmarks.

On CPUs the time is process CPU time, the least of some repeats; elsewhere wall time of chained
steps with donated state, the median of some windows. Only ratios within one run mean much.

Shape key: B batch, N patches of the grid, V views, P features.
"""

import dataclasses
import functools
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from socialjepa_jax import build, sharding
from socialjepa_jax.agents import Trainer, choose_agent_map
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.data.protocols import Batch
from socialjepa_jax.data.resident import ResidentImages, flat_rows
from socialjepa_jax.models.functional import functional
from socialjepa_jax.models.masking import MaskConfig, Masks
from socialjepa_jax.models.vit import ViT, ViTConfig
from socialjepa_jax.objectives.base import Aux, Metrics, Params
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.optim import AdamW
from socialjepa_jax.performance import compilation, flops, throughput
from socialjepa_jax.sharding import Reduce

Advance = Callable[[], Any]  # does one call and returns what to wait for

CROPS = Augment(crop_scale=(0.5, 1.0), flip=True)


def use_one_thread() -> None:
    """Makes CPU time equal wall time; call it before jax computes or torch is imported."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@dataclasses.dataclass(frozen=True)
class Effort:
    """Length of a measurement.

    Attributes:
        calls: chained in a window (accelerators).
        windows: of which the median counts, or repeats of which the least counts (CPUs).
    """

    calls: int = 30
    windows: int = 5


def seconds(advance: Advance, effort: Effort) -> float:
    """Seconds of one call, after two to warm up."""
    return together([advance], effort)[0]


def together(advances: list[Advance], effort: Effort) -> list[float]:
    """Seconds of one call of each, in turns, so that a disturbance hits all alike."""
    on_cpu = jax.default_backend() == "cpu"
    clock, calls = (time.process_time, 1) if on_cpu else (time.perf_counter, effort.calls)
    times: list[list[float]] = [[] for _ in advances]
    for advance in advances:
        jax.block_until_ready([advance(), advance()])
    for _ in range(effort.windows):
        for advance, found in zip(advances, times):
            start = clock()
            for _ in range(calls):
                result = advance()
            jax.block_until_ready(result)
            found.append((clock() - start) / calls)
    return [min(found) if on_cpu else statistics.median(found) for found in times]


@dataclasses.dataclass
class Step:
    """The compiled step of one agent on one device.

    Attributes:
        advance: does one update.
        compiled: the program.
        batch_size: pictures of a step.
        flops: model FLOPs of a step.
        accessed_bytes: see `throughput.accessed_bytes`.
    """

    advance: Advance
    compiled: compilation.Compiled
    batch_size: int
    flops: float
    accessed_bytes: float


def times(steps: Sequence[Step], effort: Effort) -> list[float]:
    """Seconds of an update of each, in turns."""
    return together([step.advance for step in steps], effort)


def at_once(makes: Sequence[Callable[[], Step]]) -> list[Future[Step]]:
    """Compiles several steps in parallel, each in a thread; returns when all are done."""
    with ThreadPoolExecutor() as pool:
        return [pool.submit(make) for make in makes]


def both(one: Callable[[], Step], other: Callable[[], Step]) -> list[Step]:
    """Compiles two steps in parallel."""
    return [made.result() for made in at_once([one, other])]


def ijepa(vit: ViTConfig, kind: type[IJepa] = IJepa) -> IJepa:
    """Social-JEPA's I-JEPA: an MLP predictor, 0.4 of the patches visible (78 of 196)."""
    return kind(vit=vit, predictor="mlp_patch", masks=MaskConfig(context_fraction=0.4))


def lejepa(
    vit: ViTConfig,
    local: int,
    kind: type[LeJepa] = LeJepa,
    *,
    projector: int = LeJepa.projector_width,
    plain: bool = False,
    packed: bool = False,
) -> LeJepa:
    """LeJEPA with 2 + 6 views, small ones of `local` pixels; `plain` without crops and colours,
    `packed` in one pass of the encoder."""
    views = MultiCrop(local_size=local)
    if plain:
        off = Augment()
        views = dataclasses.replace(views, view_a=off, view_b=off, local=off)
    return kind(
        encoder=vit,
        projector_width=projector,
        projector_dim=128,
        views=views,
        pack_views=packed,
    )


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["images", "index", "mean", "std"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class ConstantBatch:
    """One normalised batch at every step: a `Source` without the cost of an input pipeline.

    Attributes:
        images: f32[A, B, H, W, C].
        index: i32[A, B].
        mean, std: f32[A, C].
    """

    images: jax.Array
    index: jax.Array
    mean: jax.Array
    std: jax.Array

    def specs(self) -> "ConstantBatch":
        """Returns the shardings: split over agents."""
        return jax.tree.map(lambda _: P(sharding.AGENT), self)

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns the batch."""
        del step, seed, batch_size
        return {"image": self.images, "index": self.index, "mean": self.mean, "std": self.std}


def make_step(
    objective: Any,
    batch_size: int,
    *,
    augmentation: Augment | None = None,
    constant: bool = False,
    pictures: int | None = None,
) -> Step:
    """Compiles the step of an objective on pictures of noise, held on the first device as uint8.

    Args:
        objective: on pictures.
        batch_size: pictures of a step.
        augmentation: of the training pictures; default none.
        constant: one normalised float32 batch instead of draws from the pictures.
        pictures: how many there are; default two batches.
    """
    shape = flops.batch_shapes(objective, pictures or 2 * batch_size)["image"].shape
    noise = np.random.default_rng(0).integers(0, 256, (1, *shape), np.uint8)
    channels = np.full((1, shape[-1]), 0.5, np.float32)
    images = (noise[:, :batch_size] / np.float32(255) - 0.5) / 0.5 if constant else noise
    rows = np.arange(images.shape[1], dtype=np.int32)[None]
    source: Any = (
        ConstantBatch(images, rows, channels, channels)
        if constant
        else ResidentImages(
            flat_rows(images), rows, channels, channels, shape[1:],
            augmentation or Augment(),
        )
    )  # fmt: skip
    return compile_step(objective, batch_size, source)


def compile_step(objective: Any, batch_size: int, source: Any) -> Step:
    """Compiles the step of an objective on the batches of a source, on the first device.

    Args:
        objective: on pictures or on pairs of them.
        batch_size: pictures or pairs of a step.
        source: of one agent, arrays [1, ...].
    """
    trainer = Trainer(
        objective=objective,
        optimizer=AdamW(),
        total_steps=1000,
        batch_size=batch_size,
        steps_per_call=1,
        mesh=sharding.make_mesh(1, batch_size, jax.devices()[:1]),
        agent_map=choose_agent_map("auto"),
    )
    hparams = build.make_hparams([0], trainer.total_steps)
    source, hparams = jax.device_put((source, hparams), sharding.by_agent(trainer.mesh))
    state = trainer.init(hparams)
    compiled = compilation.ahead_of_time(trainer.step, state, source, hparams)

    def advance() -> Any:
        nonlocal state
        state, metrics = compiled.call(state, source, hparams)
        return metrics

    accessed = throughput.accessed_bytes(objective, compiled)
    return Step(advance, compiled, batch_size, flops.step(objective, batch_size), accessed)


class MaskEverything(IJepa):
    """The same I-JEPA loss with all tokens computed and the masked ones hidden from attention."""

    def loss_on(
        self, params: Params, aux: Aux, images_BHWC: jax.Array, masks: Masks, reduce: Reduce
    ) -> tuple[jax.Array, Metrics]:
        """Computes the loss of `IJepa.loss_on` without dropping masked tokens."""
        N = self.vit.num_patches
        all_BN = jnp.broadcast_to(jnp.arange(N)[None], (len(images_BHWC), N))
        seen_BN = (all_BN[:, :, None] == masks.context_BK[:, None, :]).any(-1)
        context = self.encoder.apply(params["encoder"], images_BHWC, all_BN, seen_BN)[1]
        teacher = jax.lax.stop_gradient(aux["target"])
        targets = functools.partial(self._everything, teacher, images_BHWC)
        terms = self.terms(params["predictor"], targets, context, masks)
        return self.prediction(terms, context, masks, reduce)

    def _everything(self, weights: Params, images_BHWC: jax.Array) -> dict[str, jax.Array]:
        return self.encoder.apply(weights, images_BHWC)[1]


class WithoutSigReg(LeJepa):
    """LeJEPA without its regulariser: to see what that costs."""

    def regularizer(self, z_BVP: jax.Array, key: jax.Array, reduce: Reduce) -> jax.Array:
        """Zero."""
        return jnp.zeros(())


def plain_step(vit: ViTConfig, batch_size: int) -> Advance:
    """A supervised-like step without anything of ours but the ViT and AdamW: latents to targets."""
    network, optimizer = functional(lambda rngs: ViT(vit, rngs)), AdamW()
    params = jax.jit(network.init)(jax.random.key(0))
    opt_state = optimizer.init(params)
    size = vit.image_size
    x = jax.random.normal(jax.random.key(1), (batch_size, size, size, vit.channels))
    y = jax.random.normal(jax.random.key(2), (batch_size, vit.width))

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def update(params: Params, opt_state: Any, x: jax.Array, y: jax.Array) -> Any:
        def loss(params: Params) -> jax.Array:
            return jnp.square(network.apply(params, x)[0].astype(jnp.float32) - y).mean()

        value, grads = jax.value_and_grad(loss)(params)
        rate, decay = jnp.float32(3e-4), jnp.float32(0.05)
        return *optimizer.update(grads, opt_state, params, rate, decay), value

    def advance() -> jax.Array:
        nonlocal params, opt_state
        params, opt_state, value = update(params, opt_state, x, y)
        return value

    return advance


def torch_step(vit: ViTConfig, batch_size: int, compiled: bool = False) -> Advance | None:
    """The same step in plain PyTorch; None without torch, or without its GPU where we have one.

    `scaled_dot_product_attention`, fused AdamW, norm clipping; autocast to bfloat16 on GPUs. Like
    ours, its calls do not wait for the GPU: their result is waited for.
    """
    try:
        import torch
    except ImportError:
        return None
    on_gpu = jax.default_backend() == "gpu"
    if on_gpu and not torch.cuda.is_available():
        return None
    device = "cuda" if on_gpu else "cpu"
    if not on_gpu:
        torch.set_num_threads(1)
    torch.manual_seed(0)
    model = _torch_vit(torch, vit).to(device)
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05, fused=True)
    size = vit.image_size
    x = torch.randn(batch_size, vit.channels, size, size, device=device)
    y = torch.randn(batch_size, vit.width, device=device)

    def advance() -> _Awaited:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=vit.dtype == "bfloat16"):
            out = run(x)
        (out.float() - y).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return _Awaited(torch.cuda.synchronize if on_gpu else lambda: None)

    return advance


@dataclasses.dataclass(frozen=True)
class _Awaited:
    """A result that `jax.block_until_ready` waits for by calling `wait`."""

    wait: Callable[[], None]

    def block_until_ready(self) -> "_Awaited":
        """Waits, like the method of arrays."""
        self.wait()
        return self


def _torch_vit(torch: Any, vit: ViTConfig) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            D = vit.width
            self.norm1, self.norm2 = nn.LayerNorm(D, eps=1e-6), nn.LayerNorm(D, eps=1e-6)
            self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
            hidden = int(D * vit.mlp_ratio)
            self.mlp = nn.Sequential(nn.Linear(D, hidden), nn.GELU(), nn.Linear(hidden, D))

        def forward(self, x: Any) -> Any:
            B, T, D = x.shape
            qkv = self.qkv(self.norm1(x)).reshape(B, T, 3, vit.heads, D // vit.heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            out = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + self.proj(out.transpose(1, 2).reshape(B, T, D))
            return x + self.mlp(self.norm2(x))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            p = vit.patch_size
            self.patch = nn.Conv2d(vit.channels, vit.width, p, stride=p)
            self.cls = nn.Parameter(0.02 * torch.randn(1, 1, vit.width))
            self.register_buffer("places", torch.randn(1, vit.num_patches, vit.width))
            self.blocks = nn.Sequential(*[Block() for _ in range(vit.depth)])
            self.norm = nn.LayerNorm(vit.width, eps=1e-6)

        def forward(self, x: Any) -> Any:
            x = self.patch(x).flatten(2).transpose(1, 2) + self.places
            x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
            return self.norm(self.blocks(x))[:, 0]

    return Network()
