"""Checkpoints of a run: saved in the background, and restored from the newest undamaged one.

Process 0 reads and writes for all processes. A checkpoint does not depend on the numbers of
processes and devices, so a run may resume with others.

Orbax's `CheckpointManager` is not used: it saves no step below the newest, it does not repeat a
failed save or set damaged checkpoints aside, and a kill while it deletes one leaves a part of it.
"""

import concurrent.futures
import contextlib
import math
import pathlib
import shutil
from typing import Any

import jax
import numpy as np
from absl import logging

from socialjepa_jax import sharding
from socialjepa_jax.errors import InputError, Stopped
from socialjepa_jax.running.folder import unused
from socialjepa_jax.running.group import ALONE, Group
from socialjepa_jax.running.storage import Storage, digests, layout, leaves, sealed

PyTree = Any


class NotSaved(Stopped):
    """A state cannot be written or is not finite. The checkpoints before it are intact."""


class Checkpoints(contextlib.AbstractContextManager["Checkpoints"]):
    """The checkpoints in one folder. Use as a context manager.

    A thread writes the saves one after the other. A save that fails is repeated once; if that fails
    too, the next `save`, `check`, `wait` or `restore` raises `NotSaved`.

    Args:
        directory: the folder; process 0 creates it.
        keep: number of checkpoints to keep: the one saved last and the newest of the others.
        group: the processes of the run. All of them make the same calls.
        read_only: nothing in the folder is changed, as another process may be writing it.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        keep: int,
        group: Group = ALONE,
        read_only: bool = False,
    ) -> None:
        self._directory = directory.resolve()
        self._keep, self._group, self._read_only = keep, group, read_only
        self._storage = Storage()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "checkpoint")
        self._pending: concurrent.futures.Future[None] | None = None
        if group.is_first and not read_only:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._sweep()

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._thread.shutdown(wait=True)
        self._storage.close()
        if kind is None:
            self.wait()

    def steps(self) -> list[int]:
        """Returns the steps that have a complete checkpoint, ascending."""
        return sorted(int(p.name) for p in self._directory.glob("*") if p.name.isdigit())

    def save(self, step: int, state: PyTree, manifest: dict[str, Any]) -> None:
        """Copies `state` on its devices and writes the copy as checkpoint `step` in the background.

        Args:
            step: updates done so far.
            state: pytree of arrays.
            manifest: JSON-able record to store with the state (configuration, versions).

        Raises:
            NotSaved: an earlier save failed.
        """
        self.wait()
        # A copy, because the next step donates the buffers; on the devices, because a copy to the
        # host would delay the next step.
        copied = sharding.copy(state)
        if not self._group.is_first:
            return
        if step in self.steps():
            raise RuntimeError(f"checkpoint {step} is already in {self._directory}")
        self._pending = self._thread.submit(self._write, step, copied, manifest)

    def check(self) -> None:
        """Raises `NotSaved` if the last save has failed by now."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def wait(self) -> None:
        """Returns when the last save is on disk; raises `NotSaved` if it failed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def manifest(self, step: int) -> dict[str, Any]:
        """Returns the manifest of checkpoint `step`: the record given to `save` and the digests.

        Raises:
            ValueError: it is damaged. Other exceptions: it cannot be read.
        """
        return self._storage.manifest(self._directory / str(step))

    def value_of_best(self, metric: str) -> float:
        """Returns the metric in the manifest of the newest checkpoint; -inf without one.

        A checkpoint whose manifest is damaged is set aside; one that another metric chose stays
        until it is replaced.
        """
        value = -math.inf
        for step in self.steps() if self._group.is_first else ():
            try:
                value = float(self.manifest(step).get("best", {}).get(metric, -math.inf))
            except Exception as error:  # Orbax raises many types on damaged files
                self._set_aside(step, error)
        return float(self._group.from_first(value))

    def newest_step(self) -> int:
        """Returns the step of the newest checkpoint, the same in every process; -1 without one."""
        return int(self._group.from_first(max(self.steps(), default=-1)))

    def drop_after(self, step: int) -> None:
        """Removes the checkpoints of later steps, which a run that goes back to `step` undoes."""
        self.wait()
        if self._group.is_first:
            for later in [other for other in self.steps() if other > step]:
                self._remove(later)

    def restore(self, abstract: PyTree) -> PyTree | None:
        """Returns the newest undamaged state, or None if there is no checkpoint.

        Damaged checkpoints are logged, renamed to `<step>.damaged` and skipped.

        Args:
            abstract: pytree of `jax.ShapeDtypeStruct`s, all with the same sharding or all without.

        Raises:
            InputError: the checkpoint has another layout, or every checkpoint is damaged.
        """
        self.wait()
        host = self._newest(abstract) if self._group.is_first else None
        if not self._group.from_first(host is not None):
            return None
        if host is None:
            host = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), abstract)
        host = self._group.arrays_from_first(host)
        target = jax.tree.leaves(abstract)[0].sharding
        return jax.device_put(host) if target is None else sharding.put(host, target)

    def _newest(self, abstract: PyTree) -> PyTree | None:
        """Returns the newest undamaged state as NumPy arrays, or None if there is no checkpoint."""
        steps = self.steps()
        for step in reversed(steps):
            try:
                manifest = self.manifest(step)
                self._check_layout(step, manifest["layout"], layout(abstract))
                path = self._directory / str(step)
                return self._storage.state(path, abstract, manifest["digests"])
            except InputError:
                raise
            except Exception as error:  # Orbax raises many types on damaged files
                self._set_aside(step, error)
        if steps or any(self._directory.glob("*.damaged*")):
            raise InputError(
                f"no checkpoint in {self._directory} can be read, see *.damaged; "
                "remove the folder to start anew"
            )
        return None

    def _check_layout(self, step: int, theirs: dict[str, str], ours: dict[str, str]) -> None:
        for name in sorted(theirs.keys() | ours.keys()):
            if theirs.get(name) != ours.get(name):
                raise InputError(
                    f"{self._directory / str(step)} is no state of this run: {name} is "
                    f"{theirs.get(name, 'missing')} there and {ours.get(name, 'missing')} here"
                )

    def _write(self, step: int, copied: PyTree, manifest: dict[str, Any]) -> None:
        """Writes a checkpoint, with a second attempt, and removes the ones that it replaces."""
        state = sharding.to_host(copied)
        bad = [path for path, leaf in leaves(state).items() if not _is_finite(leaf)]
        if bad:
            raise NotSaved(f"the state of step {step} is not finite, first in {bad[0]}")
        record = sealed({**manifest, "layout": layout(state), "digests": digests(state)})
        try:
            self._commit(step, state, record)
        except Exception as error:
            logging.error("Checkpoint %d: %s. Trying once more.", step, _first_line(error))
            try:
                self._commit(step, state, record)
            except Exception as again:
                self._sweep()
                raise NotSaved(
                    f"checkpoint {step} cannot be written to {self._directory} "
                    f"({_first_line(again)}); on disk are steps {self.steps()}"
                ) from again
        others = [other for other in self.steps() if other != step]
        for old in others[: len(others) - (self._keep - 1)]:
            self._remove(old)

    def _commit(self, step: int, state: PyTree, record: dict[str, Any]) -> None:
        self._sweep()
        self._storage.write(self._directory / str(step), state, record)

    def _remove(self, step: int) -> None:
        """Renames a checkpoint and then deletes it, so that a kill leaves no half of it behind."""
        target = self._directory / f"{step}.removed"
        (self._directory / str(step)).rename(target)
        shutil.rmtree(target)

    def _sweep(self) -> None:
        """Deletes partial checkpoints that killed processes and failed saves left behind."""
        for pattern in ("*.orbax-checkpoint-tmp*", "*.removed"):
            for path in self._directory.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)

    def _set_aside(self, step: int, error: Exception) -> None:
        source = self._directory / str(step)
        if self._read_only:
            logging.warning("Checkpoint %s cannot be read: %s", source, _first_line(error))
            return
        target = unused(self._directory / f"{step}.damaged")
        source.rename(target)
        logging.error(
            "Checkpoint %s is damaged (%s) and set aside as %s.",
            source,
            _first_line(error),
            target.name,
        )


def _is_finite(leaf: np.ndarray) -> bool:
    return not jax.numpy.issubdtype(leaf.dtype, np.inexact) or bool(np.isfinite(leaf).all())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
