"""Speed, memory and accuracy of SIGReg, against plain JAX and, where it is installed, PyTorch.

Times the value and the gradient with respect to the embeddings, as `steps.seconds` does. The
PyTorch version is the textbook one: cosine and sine of N x M x K, eagerly and under `torch.compile`
(`pip install socialjepa_jax[bench]`; optional). `--table6` times the grid of LeJEPA's table 6
instead. Prints one JSON object a line.

Command: OMP_NUM_THREADS=1 taskset -c 0 python -m experiments.bench_sigreg [--table6]
    [--repeats=7] [--shapes=3] [--out=FILE.json]
Cost: 2 minutes on one CPU core with torch, 1 without.
Expected, for N, D, M = 512, 384, 1024: 17.4 times as fast as torch eager (target 10), 2.16 times as
torch compiled (1.5), 7.4 times as plain JAX; temporaries of 1.8 N M floats (5.5); error of the
gradient at most 2.6e-6 (3e-6). Table 6, (N, M) = (512, 512), (8192, 512), (32768, 512): 10.1, 125
and 575 ms, on the paper's V100 0.47, 6.2 and 26. Only ratios within a run mean much.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from experiments.bench import results, steps
from experiments.bench.steps import Effort
from socialjepa_jax.errors import check_in_range, check_positive
from socialjepa_jax.records import write_json
from socialjepa_jax.sigreg import OFFICIAL, epps_pulley, sigreg
from socialjepa_jax.sigreg.epps_pulley import reference

SHAPES = ((512, 384, 1024), (2048, 384, 1024), (8192, 512, 512))  # N, D, M; 17 knots
TABLE6 = (  # N, M, knots on the full line, milliseconds on a V100 in the paper
    (512, 512, 16, 0.465236),
    (512, 512, 64, 0.461317),
    (512, 512, 256, 0.627644),
    (2048, 512, 16, 1.406441),
    (8192, 512, 16, 6.188304),
    (8192, 8192, 16, 8.685009),
    (32768, 512, 16, 26.373118),
    (512, 2048, 16, 0.465614),
    (512, 8192, 16, 0.670379),
)
TARGETS = {"eager": 10.0, "compiled": 1.5, "memory": 5.5, "gradient": 3e-6}


def compile_jax(z: np.ndarray, directions: np.ndarray, statistic: Callable) -> Callable:
    """Compiled value and gradient of SIGReg with respect to the embeddings."""
    step = jax.jit(jax.value_and_grad(partial(sigreg, statistic=statistic)))
    return step.lower(z, directions).compile()


def projection_floor(z: jax.Array, directions: jax.Array, effort: Effort) -> float:
    """Seconds of the two matrix products that every implementation needs."""

    def products(z: jax.Array, directions: jax.Array) -> tuple[jax.Array, jax.Array]:
        u = jnp.matmul(z, directions, precision=jax.lax.Precision.HIGHEST)
        return u, jnp.matmul(u, directions.T, precision=jax.lax.Precision.HIGHEST)

    compiled = jax.jit(products).lower(z, directions).compile()
    return steps.seconds(lambda: compiled(z, directions), effort)


def torch_times(z: np.ndarray, directions: np.ndarray, effort: Effort) -> dict[str, float]:
    """Seconds of the plain PyTorch version, eager and compiled; empty without torch."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() and jax.default_backend() == "gpu" else "cpu"
    knots, target, weights = (
        torch.tensor(v, dtype=torch.float32, device=device)
        for v in (OFFICIAL.knots, OFFICIAL.target, OFFICIAL.weights)
    )
    leaf = torch.tensor(z, device=device, requires_grad=True)
    columns = torch.tensor(directions, device=device)

    def loss(z: Any) -> Any:
        angle = (z @ columns).unsqueeze(-1) * knots
        error = (angle.cos().mean(0) - target) ** 2 + angle.sin().mean(0) ** 2
        return ((error @ weights) * z.shape[0]).mean()

    def timed(function: Callable) -> float:
        def run() -> None:
            torch.autograd.grad(function(leaf), leaf)
            if device == "cuda":
                torch.cuda.synchronize()

        return steps.seconds(run, effort)

    return {"eager": timed(loss), "compiled": timed(torch.compile(loss, dynamic=False))}


def gradient_error(z: np.ndarray, directions: np.ndarray, gradient: jax.Array) -> float:
    """Relative error of the gradient in the Euclidean norm, against float64 NumPy."""
    directions_DM = np.float64(directions)
    u_NM = np.float64(z) @ directions_DM
    slope_NM = np.zeros_like(u_NM)
    for t, target, weight in zip(OFFICIAL.knots, OFFICIAL.target, OFFICIAL.weights):
        cosine, sine = np.cos(t * u_NM), np.sin(t * u_NM)
        slope_NM += 2 * weight * t * (sine.mean(0) * cosine - (cosine.mean(0) - target) * sine)
    exact = slope_NM @ directions_DM.T / directions_DM.shape[1]
    return float(np.linalg.norm(gradient - exact) / np.linalg.norm(exact))


def problem(num: int, dim: int, slices: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian embeddings [N, D] and unit directions [D, M], float32."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(dim, slices))
    directions /= np.linalg.norm(directions, axis=0)
    return rng.normal(size=(num, dim)).astype(np.float32), directions.astype(np.float32)


def measure(shape: tuple[int, int, int], effort: Effort) -> dict[str, Any]:
    """Returns one row: milliseconds, ratios to other implementations, memory and accuracy."""
    z, directions = problem(*shape)
    ours = compile_jax(z, directions, epps_pulley)
    on_device = jax.device_put((z, directions))
    seconds = steps.seconds(lambda: ours(*on_device), effort)
    floor = projection_floor(*on_device, effort)
    others = torch_times(z, directions, effort)
    naive = compile_jax(z, directions, reference)
    others["naive JAX"] = steps.seconds(lambda: naive(*on_device), Effort(calls=2, windows=2))
    memory = ours.memory_analysis().temp_size_in_bytes / (4 * shape[0] * shape[2])
    errors = {
        scale: gradient_error(scale * z, directions, ours(scale * z, directions)[1])
        for scale in (np.float32(0.01), np.float32(1), np.float32(10))
    }
    return {
        "shape": shape,
        "ms": 1e3 * seconds,
        "projection_share": floor / seconds,
        "times_faster_than": {name: other / seconds for name, other in others.items()},
        "temporaries_over_projections": memory,
        "gradient_error": {str(scale): error for scale, error in errors.items()},
    }


def failures(row: dict[str, Any]) -> list[str]:
    """Describes the targets that a row misses."""
    ratios = row["times_faster_than"]
    missed = [
        f"{ratios[name]:.2f} times {name}, wanted {TARGETS[name]}"
        for name in ("eager", "compiled")
        if ratios.get(name, np.inf) < TARGETS[name]
    ]
    if row["temporaries_over_projections"] > TARGETS["memory"]:
        missed.append(f"temporaries {row['temporaries_over_projections']:.2f} N M floats")
    worst = max(row["gradient_error"].values())
    if worst > TARGETS["gradient"]:
        missed.append(f"gradient error {worst:.1e}")
    return missed


def table6(effort: Effort, dim: int = 512) -> list[dict[str, Any]]:
    """Times LeJEPA's table 6: its N, M and knots (16, 64, 256 on the full line), D = 512."""
    rows = []
    for num, slices, knots, paper_ms in TABLE6:
        z, directions = jax.device_put(problem(num, dim, slices))
        statistic = partial(epps_pulley, t_max=5.0, num_knots=knots // 2 + 1)
        step = compile_jax(z, directions, statistic)
        ms = 1e3 * steps.seconds(partial(step, z, directions), effort)
        rows.append({"N": num, "M": slices, "knots": knots, "ms": ms, "paper_ms": paper_ms})
    return rows


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_bool("table6", False, "Time the paper's table 6 instead.")
    flags.DEFINE_integer("repeats", 7, "Repeats of each measurement, of which the least counts.")
    flags.DEFINE_integer("shapes", len(SHAPES), "Number of shapes, from the smallest on.")
    flags.DEFINE_string("out", None, "JSON file.")


def main() -> None:
    """Prints one JSON object a row, and the targets that a shape misses."""
    steps.use_one_thread()
    given = flags.FLAGS
    check_positive(**{"--repeats": given.repeats})
    check_in_range(1, len(SHAPES), **{"--shapes": given.shapes})
    out, effort = results.out_file(given.out), Effort(windows=given.repeats)
    if given.table6:
        rows = table6(effort)
    else:
        rows = [measure(shape, effort) for shape in SHAPES[: given.shapes]]
    for row in rows:
        print(json.dumps(row))
        for line in failures(row) if "shape" in row else []:
            print(f"  missed: {line}")
    if out:
        write_json(out, {**results.here(), "rows": rows})
