"""What a run must survive, one function a line of the table; each returns (what was seen, passed).

Processes are killed, signalled and starved (`reliability_runs`); files are damaged
(`reliability_files`). What a state must hold is in `reliability_states`.
"""

import collections
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import signal
import statistics
import time
from typing import Any

import jax
import numpy as np

from experiments.reliability import files, runs
from socialjepa_jax import loop
from socialjepa_jax.agents import AgentState
from socialjepa_jax.config import Experiment, Monitors
from socialjepa_jax.errors import InputError
from socialjepa_jax.running.checkpoint import Checkpoints
from socialjepa_jax.running.signals import SIGNALS

Seen = tuple[str, bool]
STEPS = 120


@dataclasses.dataclass(frozen=True)
class Lab:
    """Where the checks work, and the run that nothing happens to.

    Attributes:
        folder: of everything.
    """

    folder: pathlib.Path

    @functools.cached_property
    def children(self) -> runs.Children:
        """Processes that share one cache of compiled programs."""
        return runs.Children(self.folder / "xla")

    @functools.cached_property
    def experiment(self) -> Experiment:
        """The run of all checks."""
        return runs.experiment(runs.write_pictures(self.folder), STEPS)

    @functools.cached_property
    def straight(self) -> pathlib.Path:
        """Workdir of the uninterrupted run."""
        workdir = self.folder / "straight"
        code = self.children.finish(self.experiment, workdir)
        assert code == 0, (code, (workdir / "stderr.txt").read_text())
        return workdir

    @functools.cached_property
    def truth(self) -> Any:
        """Digests of the uninterrupted run's last state."""
        return runs.digests(self.straight, STEPS)

    @functools.cached_property
    def abstract(self) -> AgentState:
        """What its checkpoints are restored into."""
        trainer = loop.make_trainer(self.experiment)
        return loop.abstract_state(trainer, loop.make_hparams(self.experiment))

    def copy(self, name: str) -> pathlib.Path:
        """A copy of the uninterrupted run's folder."""
        return pathlib.Path(shutil.copytree(self.straight, self.folder / name))


def kills(lab: Lab, count: int) -> Seen:
    """SIGKILL at random moments, every other one inside a save; then on to the end."""
    truth, straight = lab.truth, runs.losses(lab.straight)
    rng, tally = np.random.default_rng(0), collections.Counter[str]()
    workdir = lab.folder / "killed_0"
    for number in range(count):
        tally["from a checkpoint"] += bool(runs.saved(workdir)) if number else 0
        before = len(runs.losses(workdir))
        child = lab.children.start(lab.experiment, workdir, runs.Fault(slow=0.02))
        deadline = time.monotonic() + 120
        while child.is_alive() and time.monotonic() < deadline:
            if len(runs.losses(workdir)) > before:
                break
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.5))
        while number % 2 and child.is_alive() and not _saving(workdir):
            time.sleep(0.001)
        child.kill()
        child.join()
        tally["inside a save"] += bool(_saving(workdir))
        found = runs.losses(workdir)
        tally["losses that differ"] += sum(straight[step] != value for step, value in found.items())
        if child.exitcode == 0:  # it was at its end
            tally["equal at the end"] += runs.digests(workdir, STEPS) == truth
            tally["ends"] += 1
            workdir = lab.folder / f"killed_{number + 1}"
    tally["from a checkpoint"] += bool(runs.saved(workdir))
    code = lab.children.finish(lab.experiment, workdir)
    tally["ends"] += 1
    tally["equal at the end"] += code == 0 and runs.digests(workdir, STEPS) == truth
    tally["losses that differ"] += runs.losses(workdir) != straight
    litter = [p.name for p in workdir.rglob("*") if re.search(r"tmp|\.removed$", p.name)]
    keys = ("inside a save", "from a checkpoint", "losses that differ", "equal at the end")
    seen = ", ".join(f"{tally[key]} {key}" for key in keys)
    passed = (
        tally["ends"] == tally["equal at the end"]
        and not tally["losses that differ"]
        and 2 * tally["from a checkpoint"] >= count
        and tally["inside a save"] > 0
        and not litter
    )
    return f"{count} kills: {seen} of {tally['ends']}, {len(litter)} leftover files", passed


def _saving(workdir: pathlib.Path) -> list[pathlib.Path]:
    return list((workdir / "checkpoints").glob("*.orbax-checkpoint-tmp*"))


def stops_after_many(lab: Lab) -> Seen:
    """Every batch is bad: the run ends with code 3 and has saved nothing."""
    what = dataclasses.replace(
        lab.experiment, objective=runs.Linear(bad_from=0), monitors=Monitors(max_skips=3)
    )
    workdir = lab.folder / "all_bad"
    code = lab.children.finish(what, workdir)
    last = (workdir / "stderr.txt").read_text().splitlines()[-1]
    return f"exit {code}, {last[:60]}", code == 3 and "not finite" in last and not runs.saved(
        workdir
    )


def signals(lab: Lab, phases: tuple[str, ...] = runs.PHASES) -> Seen:
    """Each signal in each phase: exit code 75, the last step on disk; then on to the end.

    Programs are compiled before the first step, when there is nothing yet that could be lost.
    """
    truth, good, bad = lab.truth, 0, []
    begins = {"step": 5, "evaluation": 1}  # the first evaluation is of the untrained state
    for phase in phases:
        for number in SIGNALS:
            workdir = lab.folder / f"signal_{phase}_{number}"
            fault = runs.Fault(phase=phase, number=number, after=begins.get(phase, 0))
            code = lab.children.finish(lab.experiment, workdir, fault)
            text = (workdir / "stderr.txt").read_text()
            said = re.search(r"saved step (\d+) of|(training is done and saved)", text)
            step = 0 if said is None else int(said[1] or STEPS)
            ok = code == 75 and runs.saved(workdir)[-1:] == [step] * bool(step)
            ok &= bool(step) or (phase == "compilation" and "no step was done yet" in text)
            good += ok
            bad += [] if ok else [f"{phase}/{signal.Signals(number).name}: exit {code}"]
        code = lab.children.finish(lab.experiment, workdir)  # the last of them goes on
        if code != 0 or runs.digests(workdir, STEPS) != truth:
            bad.append(f"{phase}: another end")
    total = len(phases) * len(SIGNALS)
    return f"{good} of {total} saved {'; '.join(bad)}".strip(), good == total and not bad


def bit_flips(lab: Lab, count: int) -> Seen:
    """One random bit of a random file of a checkpoint: restored as it was, or refused."""
    rng, outcome = np.random.default_rng(0), collections.Counter[str]()
    source = lab.straight / "checkpoints" / str(STEPS)
    for number in range(count):
        folder = lab.folder / "flips" / str(number)
        shutil.copytree(source, folder / str(STEPS))
        paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size)
        files.flip_a_bit(paths[rng.integers(len(paths))], rng)
        found = files.restored_digests(folder, lab.abstract)
        outcome["refused" if found is None else "intact" if found == lab.truth else "silent"] += 1
        shutil.rmtree(folder)
    seen = f"{outcome['silent']} of {count} silent, {outcome['refused']} refused"
    return f"{seen}, {outcome['intact']} without effect", not outcome["silent"]


def damaged_latest(lab: Lab) -> Seen:
    """The newest checkpoint is damaged in every way: the one before is used."""
    good, bad = 0, []
    previous = runs.saved(lab.straight)[-2]
    expected = runs.digests(lab.straight, previous)
    for number, (name, damage) in enumerate(files.DAMAGES.items()):
        workdir = lab.copy(f"damaged_{number}")
        damage(workdir / "checkpoints" / str(STEPS))
        found = files.restored_digests(workdir / "checkpoints", lab.abstract)
        aside = (workdir / "checkpoints" / f"{STEPS}.damaged").is_dir()
        if found == expected and aside:
            good += 1
        else:
            bad.append(name)
    return f"{good} of {len(files.DAMAGES)} {'; '.join(bad)}".strip(), not bad


def _refusals(lab: Lab) -> dict[str, tuple[pathlib.Path, Experiment, str]]:
    """What must be refused: name -> (workdir, experiment, words of the message)."""
    what = lab.experiment
    foreign, other, lost, wide = (lab.copy(name) for name in ("foreign", "other", "lost", "wide"))
    (foreign / "checkpoints" / "7000").mkdir()
    (lost / "config.json").unlink()
    blocked = lab.folder / "blocked"
    blocked.mkdir()
    (blocked / "file").write_text("")
    (blocked / "checkpoints").write_text("")
    larger = dataclasses.replace(what, objective=runs.Linear(dim=24))
    config = (wide / "config.json").read_text()
    (wide / "config.json").write_text(config.replace('"dim": 16', '"dim": 24'))
    return {
        "a folder that cannot be made": (pathlib.Path("/proc/none"), what, "cannot be written"),
        "a file for a folder": (blocked / "file", what, "cannot be written"),
        "a file for the checkpoints": (blocked, what, "checkpoints is a file"),
        "a foreign folder": (foreign, what, "7000 is not a checkpoint"),
        "another setting": (other, dataclasses.replace(what, seed=1), "config.seed: 0 -> 1"),
        "no config.json": (lost, what, "no config.json"),
        "checkpoints of another shape": (wide, larger, "is no state of this run"),
    }


def refusals(lab: Lab) -> Seen:
    """Bad folders are refused by name before anything is compiled; checkpoints stay as they are."""
    good, bad = 0, []
    cases: dict[str, Any] = _refusals(lab)
    begin, usage = loop.open_batches, shutil.disk_usage
    loop.open_batches = _too_late  # type: ignore[assignment]
    try:
        for name, (workdir, what, words) in cases.items():
            if (said := _refusal(what, workdir)) and words in said:
                good += 1
            else:
                bad.append(f"{name}: {said}")
        shutil.disk_usage = lambda path: usage(path)._replace(free=10)  # type: ignore[assignment]
        said = _refusal(lab.experiment, lab.folder / "no_room")
        good, bad = (good + 1, bad) if said and "room" in said else (good, [*bad, f"room: {said}"])
    finally:
        loop.open_batches, shutil.disk_usage = begin, usage
    for workdir in (case[0] for case in cases.values()):
        if (workdir / "checkpoints" / str(STEPS)).exists():
            if runs.digests(workdir, STEPS) != lab.truth:
                bad.append(f"{workdir.name}: its checkpoint changed")
    return f"{good} of {len(cases) + 1} {'; '.join(bad)}".strip(), not bad


def _too_late(*args: Any) -> None:
    raise AssertionError("the run began")


def _refusal(what: Experiment, workdir: pathlib.Path) -> str | None:
    try:
        loop.fit(what, workdir)
    except (InputError, AssertionError) as error:
        return str(error)
    return None


def locked(lab: Lab) -> Seen:
    """A second run in a workdir is refused while the first lives, and welcome after its kill."""
    workdir = lab.folder / "locked"
    first = lab.children.start(lab.experiment, workdir, runs.Fault(slow=0.5))
    while first.is_alive() and not runs.losses(workdir):
        time.sleep(0.02)
    second = lab.children.finish(lab.experiment, workdir)
    first.kill()
    first.join()
    after = lab.children.finish(lab.experiment, workdir)
    named = f"is in use by process {first.pid} on" in (workdir / "stderr.txt").read_text()
    equal = runs.digests(workdir, STEPS) == lab.truth
    seen = f"second: exit {second}, after a kill: exit {after}, equal at the end: {equal}"
    return seen, (second, after, named, equal) == (2, 0, True, True)


def full_disk(lab: Lab) -> Seen:
    """Files can no longer grow: the run ends at once with code 3, what was saved is intact."""
    what = dataclasses.replace(lab.experiment, objective=runs.Linear(dim=512))
    workdir = lab.folder / "full"
    lab.children.finish(what, workdir, runs.Fault(phase="step", after=9))
    before = runs.saved(workdir)
    digests = runs.digests(workdir, before[-1])
    code = lab.children.finish(what, workdir, runs.Fault(file_limit=200_000))
    intact = runs.saved(workdir) == before and runs.digests(workdir, before[-1]) == digests
    last = (workdir / "stderr.txt").read_text().splitlines()[-1]
    seen = f"exit {code}, {len(before)} checkpoints {'intact' if intact else 'LOST'}"
    return seen, code == 3 and intact and "cannot be written" in last


def hostile_files(lab: Lab) -> Seen:
    """Pickles, headers that lie, damage: nothing is executed, nothing accepted."""
    count, wrong, executed = files.try_all(lab.folder / "hostile")
    seen = f"{count} files, {int(executed)} executed, {len(wrong)} accepted {'; '.join(wrong)}"
    return seen.strip(), not wrong and not executed and count >= 60


def blocking(lab: Lab) -> Seen:
    """How long `save` keeps the steps waiting for a state of 64 MiB.

    The fastest of five, since on a busy machine the others measure who else runs.
    """
    state = {f"leaf_{k}": jax.random.normal(jax.random.key(k), (1 << 20,)) for k in range(16)}
    jax.block_until_ready(state)
    times = []
    with Checkpoints(lab.folder / "large", 1) as checkpoints:
        for step in range(5):
            start = time.perf_counter()
            checkpoints.save(step, state, {})
            times.append(1e3 * (time.perf_counter() - start))
            checkpoints.wait()
    shutil.rmtree(lab.folder / "large")
    seen = f"{min(times):.0f} ms (fastest of 5; median {statistics.median(times):.0f})"
    return seen, min(times) < 50


def leftovers(lab: Lab) -> Seen:
    """Processes and shared memory that the killed runs left behind."""
    name = str(lab.folder).encode()
    shared = [p.name for p in pathlib.Path("/dev/shm").glob("psm_*")]
    alive = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            parent = int((path.parent / "stat").read_text().rsplit(")", 1)[1].split()[1])
            # Children of this process are the server that starts runs, and its helper.
            if b"SOCIALJEPA_LAB=" + name in path.read_bytes() and parent != os.getpid():
                alive.append(path.parent.name)
        except OSError:
            continue  # ended meanwhile, or somebody else's
    return f"{len(alive)} processes, {len(shared)} segments", not alive and not shared
