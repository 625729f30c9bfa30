"""The smallest whole run, in separate processes that can be killed, and its results.

A run trains two linear agents with an EMA target on pictures of noise, through the same loop,
checkpoints and folders as any other: `loop.fit`.
"""

import functools
import hashlib
import json
import multiprocessing
import os
import pathlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.reliability import faults
from socialjepa_jax import evaluation, loop
from socialjepa_jax.config import Agents, Experiment, Run
from socialjepa_jax.data.arrays import ArraysData
from socialjepa_jax.data.base import Protocol, Splits
from socialjepa_jax.data.streaming import StreamedWindow, StreamFeed
from socialjepa_jax.errors import InputError, Stopped
from socialjepa_jax.experimental import exact
from socialjepa_jax.optim import AdamW
from socialjepa_jax.performance import throughput
from socialjepa_jax.report.run import page as run_page
from socialjepa_jax.running import checkpoint, hosts, launch
from socialjepa_jax.running.hosts import ProcessSpec
from socialjepa_jax.sharding import Reduce

SIDE = 8
PHASES = ("compilation", "step", "save", "evaluation", "table")


@dataclass(frozen=True)
class Linear:
    """Predicts noised pixels from masked ones, towards an EMA target: every moving part, small.

    Attributes:
        kind: name in the configuration.
        dim: latent dimensions; the parameters are SIDE * SIDE * dim numbers.
        bad_from: a batch with a state from this row on has a loss that is NaN.
    """

    kind: str = "linear"
    dim: int = 16
    bad_from: int = 1_000_000

    def init(self, key: jax.Array) -> tuple[Any, Any]:
        """Returns a random matrix, twice."""
        params = {"kernel": 0.1 * jax.random.normal(key, (SIDE * SIDE, self.dim))}
        return params, params

    def loss(
        self, params: Any, aux: Any, batch: Any, key: jax.Array, hparams: Any, reduce: Reduce
    ) -> tuple[jax.Array, tuple[Any, dict[str, jax.Array]]]:
        """Squared error, and how far the outputs' spread is from 1."""
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, batch["index"])
        x = batch["image"].reshape(len(batch["image"]), -1)
        mask = jax.vmap(lambda k: jax.random.bernoulli(k, 0.5, x.shape[1:]))(keys)
        target = jax.lax.stop_gradient(x @ aux["kernel"])
        error = reduce.mean(jnp.square((x * mask) @ params["kernel"] - target).mean(-1))
        spread = reduce.mean(jnp.square(x @ params["kernel"])).mean()
        bad = reduce.sum((batch["index"] >= self.bad_from).astype(jnp.float32)) > 0
        loss = jnp.where(bad, jnp.nan, error + jnp.square(1.0 - spread))
        return loss, (aux, {"spread": spread})

    def after_update(self, params: Any, aux: Any, step: jax.Array, hparams: Any) -> Any:
        """The target follows slowly."""
        return jax.tree.map(lambda a, p: 0.9 * a + 0.1 * p, aux, params)

    def encode(self, params: Any, aux: Any, images: jax.Array) -> dict[str, jax.Array]:
        """The linear outputs."""
        return {"latent": images.reshape(len(images), -1) @ params["kernel"]}


def write_pictures(folder: pathlib.Path) -> pathlib.Path:
    """Writes pictures of noise: 2 categories x 6 objects x 8 elevations x 2 azimuths."""
    grid = np.array(
        [(c, i, e, a) for c in range(2) for i in range(6) for e in range(8) for a in (0, 160)]
    )
    images = np.random.default_rng(0).integers(0, 256, (len(grid), SIDE, SIDE), np.uint8)
    columns = dict(zip(("category", "instance", "elevation", "azimuth"), grid.T))
    path = folder / "noise.npz"
    np.savez(path, images=images, **columns)
    return path


def experiment(pictures: pathlib.Path, steps: int = 60, **changes: Any) -> Experiment:
    """The run; changes are of its fields."""
    names = ("category", "instance", "elevation", "azimuth")
    base = Experiment(
        name="Reliability",
        data=ArraysData(
            path=str(pictures),
            columns=tuple((name, name) for name in names),
            channels=1,
            image_size=SIDE,
            protocol=Protocol("norb", azimuths=(0, 160)),
            splits=Splits(test_instances=2, test_states=0.25, seed=0),
        ),
        objective=Linear(),
        agents=Agents(cameras=(0, 1), seeds=(0, 1)),
        optim=AdamW(learning_rate=1e-2),
        run=Run(
            steps=steps, batch_size=8, steps_per_call=1, log_every=1, eval_every=steps // 2,
            save_every=4, keep_checkpoints=3,
        ),
    )  # fmt: skip
    return replace(base, **changes)


@dataclass(frozen=True)
class Fault:
    """A fault that a child process injects into itself.

    Attributes:
        phase: of `PHASES`, in which it sends itself a signal; "" for none.
        number: of the signal.
        after: skip this many entries of the phase.
        file_limit: bytes beyond which no file can be written; 0 for none.
        slow: seconds added to every step, so that there is time for a kill.
        raises: an error is raised instead of sending a signal.
        late: seconds that pass before the pictures are looked for.
        records: nothing goes wrong, but `batches_<index>.jsonl` says what the devices are given.
        act: of `faults.ACTS`, done in the phase instead of sending a signal; "" for none.
        clock: the clock jumps, forth and back.
        options: names and values of options of jax, as environment variables set them.
    """

    phase: str = ""
    number: int = signal.SIGTERM
    after: int = 0
    file_limit: int = 0
    slow: float = 0.0
    raises: bool = False
    late: float = 0.0
    records: bool = False
    act: str = ""
    clock: bool = False
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Layout:
    """Numbers of processes and devices of a run.

    Attributes:
        processes: run together.
        devices: of each.
        patience: seconds that they wait for each other.
        exact_shards: of `experimental.exact`; 0: the usual trainer.
    """

    processes: int = 1
    devices: int = 1
    patience: float = 60.0
    exact_shards: int = 0

    def process(self, index: int, port: int) -> ProcessSpec | None:
        """Returns the specification of one of the processes; None if it is the only one."""
        if self.processes == 1:
            return None
        return ProcessSpec(f"127.0.0.1:{port}", self.processes, index)


@dataclass(frozen=True)
class Children:
    """Starts runs in processes forked from a server that has imported everything.

    Attributes:
        cache: folder of compiled programs.
        daemon: end with this process; a child that has workers of its own cannot.
    """

    cache: pathlib.Path
    daemon: bool = True

    @functools.cached_property
    def _context(self) -> Any:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        return context

    def start(
        self, what: Experiment, workdir: pathlib.Path, fault: Fault | None = None
    ) -> BaseProcess:
        """Starts a run, or goes on with it."""
        return self.start_group(what, workdir, Layout(), {0: fault or Fault()})[0]

    def start_group(
        self,
        what: Experiment,
        workdir: pathlib.Path,
        layout: Layout,
        faults: Mapping[int, Fault] | None = None,
    ) -> list[BaseProcess]:
        """Starts all processes of a run; `faults` are of some of them, by index."""
        port, children = free_port(), []
        for index in range(layout.processes):
            fault = (faults or {}).get(index, Fault())
            arguments = (what, workdir, self.cache, fault, layout.process(index, port), layout)
            process = self._context.Process(target=child, args=arguments, daemon=self.daemon)
            children.append(process)
            process.start()
        return children

    def finish_group(
        self,
        what: Experiment,
        workdir: pathlib.Path,
        layout: Layout,
        faults: Mapping[int, Fault] | None = None,
    ) -> list[int | None]:
        """Runs all to the end and returns their exit codes."""
        return join(self.start_group(what, workdir, layout, faults), 600)

    def finish(
        self, what: Experiment, workdir: pathlib.Path, fault: Fault | None = None
    ) -> int | None:
        """Runs to the end and returns the exit code; None after ten minutes."""
        child = self.start(what, workdir, fault)
        child.join(600)
        return child.exitcode


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def join(children: list[BaseProcess], seconds: float) -> list[int | None]:
    """Waits for processes to end, kills those that do not in time, returns the exit codes."""
    deadline = time.monotonic() + seconds
    for child in children:
        child.join(max(0.0, deadline - time.monotonic()))
    codes = [child.exitcode for child in children]
    for child in children:
        child.kill()
        child.join()
    return codes


def child(
    what: Experiment,
    workdir: pathlib.Path,
    cache: pathlib.Path,
    fault: Fault,
    place: ProcessSpec | None = None,
    layout: Layout = Layout(),
) -> None:
    """Runs the experiment without flags, in a separate process; `place` None: the only one."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", layout.devices)
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    workdir.mkdir(parents=True, exist_ok=True)
    own = f"_{place.index}" if place and place.index else ""
    for number, name in ((1, "stdout"), (2, "stderr")):  # collectives write to the first
        log = os.open(workdir / f"{name}{own}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, number)
    for name, value in fault.options:
        jax.config.update(name, value)
    if fault.file_limit:
        faults.limit_files(fault.file_limit)
    if fault.act == "read only":
        faults.own_mounts()
    if fault.clock:
        time.time = faults.jumping_clock()
    _inject(fault, what, workdir)
    if fault.records:
        _record(workdir / f"batches_{place.index if place else 0}.jsonl")
    # The page is drawn for seconds, and nothing here depends on it.
    run_page.write_run_report = lambda workdir, *_: workdir / "report.html"
    try:
        with hosts.joined(place, layout.patience) as group:
            if layout.exact_shards:
                exact.fit(what, workdir, layout.exact_shards, group)
            else:
                loop.fit(what, workdir, group=group)
    except (InputError, Stopped) as error:
        code, message = launch.exit_status(error)
        print(message, file=sys.stderr)
        sys.exit(code)


def batch_digest(rows: Any, images: Any) -> str:
    """SHA-256 of a part of a batch: i32[A, S, B] and u8[A, S, B, H, W, C], on host or device."""
    digest = hashlib.sha256()
    for array in (rows, images):
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def _record(path: pathlib.Path) -> None:
    """Lists the parts of streamed batches on this process's devices: step, block and digest."""
    at = StreamFeed.at

    def recorded(feed: StreamFeed, step: int) -> StreamedWindow:
        window = at(feed, step)
        with path.open("a") as file:
            shards = zip(window.rows.addressable_shards, window.images.addressable_shards)
            for rows, images in shards:
                block = [part.indices(n)[:2] for part, n in zip(rows.index, window.rows.shape)]
                digest = batch_digest(rows.data, images.data)
                file.write(json.dumps({"step": step, "place": block, "digest": digest}) + "\n")
        return window

    StreamFeed.at = recorded  # type: ignore[method-assign]


def _inject(fault: Fault, what: Experiment, workdir: pathlib.Path) -> None:
    """Makes the phase of a fault send its signal, by wrapping what the phase calls."""
    entries = 0

    def trigger(delay: float = 0.0) -> None:
        nonlocal entries
        entries += 1
        if entries == fault.after + 1:
            if fault.raises:
                raise RuntimeError("an injected error")
            if fault.act:
                faults.ACTS[fault.act](workdir)
                return
            threading.Timer(delay, os.kill, (os.getpid(), fault.number)).start()
            time.sleep(0.0 if delay else 0.05)

    def wrap(owner: Any, name: str, before: Callable[[], None]) -> None:
        inner = getattr(owner, name)

        def outer(*args: Any, **kwargs: Any) -> Any:
            before()
            return inner(*args, **kwargs)

        setattr(owner, name, outer)

    if fault.late:
        wrap(type(what.data), "load", lambda: time.sleep(fault.late))
    if fault.slow or fault.phase == "step":
        prepare = throughput.prepare

        def slowly(*arguments: Any) -> throughput.CompiledStep:
            program = prepare(*arguments)
            call = program.compiled.call

            def run(*args: Any) -> Any:
                time.sleep(fault.slow)
                result = call(*args)
                if fault.phase == "step":
                    trigger()
                return result

            return replace(program, compiled=replace(program.compiled, call=run))

        throughput.prepare = slowly
    elif fault.phase == "compilation":  # the loss is called while the step is traced
        wrap(Linear, "loss", lambda: trigger(delay=0.02))
    elif fault.phase == "save":
        wrap(checkpoint.Checkpoints, "_commit", trigger)
    elif fault.phase == "evaluation":
        wrap(evaluation, "scalars", trigger)
    elif fault.phase == "table":
        wrap(evaluation, "alignment_rows", trigger)


def losses(workdir: pathlib.Path) -> dict[int, tuple[float, ...]]:
    """Step -> losses of the agents, of the lines that are whole."""
    found = {}
    path = workdir / "metrics.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            value = json.loads(line)
        except ValueError:
            continue  # cut short by a kill
        if value["kind"] == "train":
            found[value["step"]] = tuple(value[f"agent_{k}/loss"] for k in range(2))
    return found


def digests(workdir: pathlib.Path, step: int) -> Mapping[str, str]:
    """SHA-256 of every array of a checkpoint: parameters, EMA target, moments, counters."""
    with checkpoint.Checkpoints(workdir / "checkpoints", 3) as checkpoints:
        return checkpoints.manifest(step)["digests"]


def saved(workdir: pathlib.Path) -> list[int]:
    """Steps with a complete checkpoint."""
    folder = workdir / "checkpoints"
    return sorted(int(p.name) for p in folder.glob("*") if p.name.isdigit())
