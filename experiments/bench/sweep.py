"""Speed of sweeps of small runs, beside a plain PyTorch loop of the same model.

The identifiability paper's 2-D run: 5-layer MLP of width 256, 256 pairs, 256 slices x 17 knots,
AdamW, pairs drawn at every step. Runs x steps per second are of process CPU time on one thread on
CPUs, of wall time on accelerators. Only ratios within one call mean much. PyTorch
(`pip install socialjepa_jax[bench]`) is optional.

Command: taskset -c 0 python -m experiments.bench_sweep [--agents=1,9] [--seconds=8]
    [--out=FILE.json]
Cost: 3 minutes on one CPU core with PyTorch.
Expected: 4.4 times as fast as PyTorch eager (target 8), 1.8 times as compiled (target 1.7). Of the
9.4 ms of a step, matrix products alone take 5.7, so that 7.2 times is the limit.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import jax
from absl import flags

from experiments.bench import results, steps
from experiments.identifiability import sweep
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.errors import InputError, check_positive
from socialjepa_jax.identifiability.mixings import Spiral
from socialjepa_jax.identifiability.worlds import LatentWorld, stack
from socialjepa_jax.models.mlp import MLPConfig
from socialjepa_jax.objectives.pairs import Pairs
from socialjepa_jax.records import write_json

RHO, WEIGHT, BATCH, SLICES, HIDDEN, LAYERS = 0.95, 1e-3, 256, 256, 256, 5
GRID_RUNS, GRID_STEPS = 189, 20_000
TARGETS = {"torch eager": 8.0, "torch compile": 1.7}
FLOOR = "its matrix products alone"


def rate(advance: Callable[[], int], seconds: float) -> float:
    """Run-steps per second of the best of three stretches, after one call to warm up."""
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    advance()
    rates = []
    for _ in range(3):
        begin, done = clock(), 0
        while clock() - begin < seconds / 3:
            done += advance()
        rates.append(done / (clock() - begin))
    return max(rates)


def jax_runs(
    num_agents: int,
    steps_per_call: int,
    agent_map: str,
    *,
    batch: int = BATCH,
    hidden: int = HIDDEN,
    slices: int = SLICES,
) -> Callable[[], int]:
    """A call that advances all agents and returns the run-steps it did.

    Products are in full float32, as in `sweep.train`.

    Args:
        num_agents: runs of the program.
        steps_per_call: steps of a call; they divide `GRID_STEPS`.
        agent_map: "auto" | "vmap" | "map", see `agents.choose_agent_map`.
        batch: pairs of a run and step.
        hidden: width of the MLP.
        slices: of SIGReg.
    """
    preset, process = sweep.PRESETS["code"], OrnsteinUhlenbeck(2)
    world = LatentWorld(process, Spiral(), preset.noised)
    trainer = sweep.make_trainer(
        world,
        Pairs(MLPConfig(hidden=hidden, layers=LAYERS), num_slices=slices),
        sweep.published_optimizer(preset),
        num_agents,
        steps=GRID_STEPS,
        batch_size=batch,
        steps_per_call=steps_per_call,
        agent_map=agent_map,
        devices=jax.devices()[:1],
    )
    params = stack([world.params(process.params(RHO), k) for k in range(num_agents)])
    worlds = sweep.Worlds(params, world)
    hparams = sweep.make_hparams(range(num_agents), steps=GRID_STEPS, weight=WEIGHT)
    state = trainer.init(hparams)

    def advance() -> int:
        nonlocal state
        with jax.default_matmul_precision("highest"):
            state, metrics = trainer.step(state, worlds, hparams)
        jax.block_until_ready(metrics)
        return num_agents * steps_per_call

    return advance


def matrix_products(repeats: int = 20) -> Callable[[], int]:
    """The products of the hidden layers alone, forward and backward: what no step can undercut.

    Like those of the steps, they are in full float32.
    Each of the square layers W [H, H] has three with the 2 B rows of both views: x W, g W^T, x^T g.
    """
    key_x, key_w = jax.random.split(jax.random.key(0))
    x_BH = jax.random.normal(key_x, (2 * BATCH, HIDDEN))
    w_HH = jax.random.normal(key_w, (HIDDEN, HIDDEN)) / math.sqrt(HIDDEN)

    def step(_: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x_BH, w_HH = carry
        for _ in range(LAYERS - 2):
            ahead_BH, back_BH = x_BH @ w_HH, x_BH @ w_HH.T
            # The tiny factors keep the numbers finite and every product needed.
            w_HH = w_HH + 1e-12 * (x_BH.T @ ahead_BH)
            x_BH = x_BH + 1e-12 * (ahead_BH + back_BH)
        return x_BH, w_HH

    repeat = jax.jit(lambda x, w: jax.lax.fori_loop(0, repeats, step, (x, w)))

    def advance() -> int:
        with jax.default_matmul_precision("highest"):
            jax.block_until_ready(repeat(x_BH, w_HH))
        return repeats

    return advance


def torch_run(compiled: bool) -> Callable[[], int] | None:
    """The same step in PyTorch, one run at a time; None without torch."""
    try:
        import torch
    except ImportError:
        return None
    torch.manual_seed(0)
    torch.set_num_threads(1)
    widths = [2, *[HIDDEN] * (LAYERS - 1), 2]
    layers: list[Any] = []
    for i in range(LAYERS):
        layers += [torch.nn.Linear(widths[i], widths[i + 1]), torch.nn.GELU()]
    model = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    knots = torch.linspace(0, 3, 17)
    target = torch.exp(-0.5 * knots**2)
    weights = torch.full((17,), 2 * 3 / 16)
    weights[[0, -1]] = 3 / 16
    weights = weights * target

    def loss_of(x: Any, directions: Any) -> Any:
        h = model(x.reshape(-1, 2))
        angle = (h @ directions)[..., None] * knots
        error = (angle.cos().mean(0) - target) ** 2 + angle.sin().mean(0) ** 2
        sigreg = (error @ weights).mean() * len(h)
        views = h.reshape(2, -1, 2)
        align = ((views.mean(0) - views) ** 2).mean()
        return WEIGHT * sigreg + (1 - WEIGHT) * align

    loss = torch.compile(loss_of) if compiled else loss_of

    def advance() -> int:
        z = torch.randn(BATCH, 2)
        noise = math.sqrt(1 - RHO**2) * torch.randn(2, BATCH, 2)
        views = RHO * z + noise
        angle = math.pi * views.norm(dim=-1)
        cos, sin = angle.cos(), angle.sin()
        x = torch.stack(
            [cos * views[..., 0] - sin * views[..., 1], sin * views[..., 0] + cos * views[..., 1]],
            -1,
        )
        directions = torch.randn(2, SLICES)
        optimizer.zero_grad()
        loss(x, directions / directions.norm(dim=0)).backward()
        optimizer.step()
        return 1

    return advance


def measure(agents: list[int], seconds: float) -> dict[str, float]:
    """All rates by name."""
    on_cpu = jax.default_backend() == "cpu"
    names = {f"jax scan, {n} agents": (n, 20 if on_cpu else 200, "auto") for n in agents}
    names["jax jit per step"] = (1, 1, "map")
    if on_cpu:
        names["jax scan, vmap(9)"] = (9, 20, "vmap")
    found = {name: rate(jax_runs(*how), seconds) for name, how in names.items()}
    found[FLOOR] = rate(matrix_products(), seconds)
    for name, compiled in (("torch eager", False), ("torch compile", True)):
        advance = torch_run(compiled)
        if advance is not None:
            found[name] = rate(advance, seconds)
    return found


def numbers(texts: list[str]) -> list[int]:
    """The numbers of agents that `--agents=` lists.

    Raises:
        InputError: there are none, or one is no positive integer.
    """
    if not texts or not all(text.isdecimal() and int(text) for text in texts):
        raise InputError(f"--agents={','.join(texts)} must be positive integers, as in 1,9")
    return [int(text) for text in texts]


def define_flags() -> None:
    """Only a program defines flags; modules that import this one have their own."""
    flags.DEFINE_list("agents", ["1", "9"], "Numbers of agents.")
    flags.DEFINE_float("seconds", 8.0, "Of each measurement.")
    flags.DEFINE_string("out", None, "JSON file.")


def main() -> None:
    """Command line."""
    steps.use_one_thread()
    given = flags.FLAGS
    agents = numbers(given.agents)
    check_positive(**{"--seconds": given.seconds})
    out = results.out_file(given.out)
    found = measure(agents, given.seconds)
    best = max(found[f"jax scan, {n} agents"] for n in agents)
    ratios = {name: best / found[name] for name in TARGETS if name in found}
    hours = GRID_RUNS * GRID_STEPS / best / 3600
    for name, value in found.items():
        print(f"{name:24s} {value:8.1f} run-steps / s")
    for name, ratio in ratios.items():
        met = "met" if ratio >= TARGETS[name] else "missed"
        limit = found[FLOOR] / found[name]
        print(f"over {name}: {ratio:.1f} (target {TARGETS[name]}: {met}; limit {limit:.1f})")
    print(f"share of the matrix products: {best / found[FLOOR]:.0%}")
    print(f"grid of {GRID_RUNS} runs x {GRID_STEPS} steps: {hours:.1f} h on this core or device")
    if out:
        result = {"rates": found, "ratios": ratios, "targets": TARGETS, "grid_hours": hours}
        write_json(out, {**results.here(), **result})
