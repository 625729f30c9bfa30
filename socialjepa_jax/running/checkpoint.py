"""Checkpoints: Orbax behind `save` and `restore`, with a digest of every leaf.

Orbax commits a checkpoint by an atomic rename, so a killed save is never listed; but it restores
flipped bits as if they were good, and casts silently. Each checkpoint therefore carries a manifest
with the layout and the SHA-256 of every leaf. What does not match its digest is set aside and the
checkpoint before it is used; what has another layout than the run needs is refused.

Of several processes the first one reads and writes, for all; a checkpoint knows nothing of
processes and devices, and any number of them goes on from it.
"""

import asyncio
import concurrent.futures
import hashlib
import json
import math
import pathlib
import shutil
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging

from socialjepa_jax import sharding
from socialjepa_jax.errors import InputError, Stopped
from socialjepa_jax.running.hosts import ALONE, Group

PyTree = Any

# Orbax numbers the saves of a process, and two at once (of the newest and of the best) take each
# other's "folder is made" for their own.
_ONE_SAVE = threading.Lock()


class NotSaved(Stopped):
    """A state cannot be written, or must not be. The checkpoints before it are intact."""


def _leaves(tree: PyTree) -> dict[str, Any]:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in paths}


def digests(tree: PyTree) -> dict[str, str]:
    """SHA-256 over dtype, shape and bytes of every leaf, by its path in the tree."""
    result = {}
    for path, leaf in _leaves(jax.device_get(tree)).items():
        array = np.asarray(leaf, order="C")
        digest = hashlib.sha256(f"{array.dtype}{array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
        result[path] = digest.hexdigest()
    return result


def layout(tree: PyTree) -> dict[str, str]:
    """Dtype and shape of every leaf (arrays or `jax.ShapeDtypeStruct`s), by its path."""
    return {path: f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in _leaves(tree).items()}


def _seal(manifest: dict[str, Any]) -> str:
    """SHA-256 of a manifest without its seal."""
    rest = {name: value for name, value in manifest.items() if name != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


class Checkpoints:
    """The checkpoints of one run, newest last. Use as a context manager.

    Saves are written by a thread, one after the other. A save that fails is repeated once; if that
    fails too, the next `save`, `check`, `wait` or `restore` raises `NotSaved`.

    Args:
        directory: where they lie; made if missing.
        keep: how many to keep beside each other: the one saved last and the newest others.
        group: the processes of the run; all of them call `save` and `restore` alike.
    """

    def __init__(self, directory: pathlib.Path, keep: int, group: Group = ALONE) -> None:
        self._directory = directory.resolve()
        self._keep, self._group = keep, group
        self._checkpointer = _checkpointer()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "checkpoint")
        self._pending: concurrent.futures.Future[None] | None = None
        if group.is_first:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._sweep()

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.shutdown(wait=True)
        self._checkpointer.close()
        if kind is None:
            self.wait()

    def steps(self) -> list[int]:
        """The steps that have a complete checkpoint, ascending."""
        return sorted(int(p.name) for p in self._directory.iterdir() if p.name.isdigit())

    def save(self, step: int, state: PyTree, manifest: dict[str, Any]) -> None:
        """Copies `state` on its devices and writes the copy as checkpoint `step` in the background.

        Args:
            step: updates done so far.
            state: pytree of arrays.
            manifest: what to remember beside it, JSON-able (configuration, versions).

        Raises:
            NotSaved: an earlier save failed.
        """
        self.wait()
        # A copy, because the next step takes the buffers over; on the devices, because a copy to
        # the host keeps the steps waiting.
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
        """Returns what was remembered beside checkpoint `step`.

        Raises:
            ValueError: it is damaged. Other exceptions: it cannot be read.
        """
        restored = self._checkpointer.restore(
            self._directory / str(step), args=ocp.args.Composite(manifest=ocp.args.JsonRestore())
        )
        if restored.manifest.get("seal") != _seal(restored.manifest):
            raise ValueError("the manifest differs from its digest")
        return restored.manifest

    def value_of_best(self, metric: str) -> float:
        """What the newest checkpoint was chosen for, as the best; minus infinity without one."""
        found = -math.inf
        for step in self.steps() if self._group.is_first else ():
            try:
                found = float(self.manifest(step)["best"][metric])
            except Exception as error:  # damaged, or chosen for another metric: to be replaced
                logging.warning("The best checkpoint %d cannot be compared: %s", step, error)
        return float(self._group.from_first(found))

    def restore(self, abstract: PyTree) -> PyTree | None:
        """Returns the newest undamaged state, or None if there is no checkpoint.

        Damaged checkpoints are reported, renamed to `<step>.damaged` and passed over.

        Args:
            abstract: what to restore into: `jax.ShapeDtypeStruct`s, all with the same sharding, or
                without one.

        Raises:
            InputError: the checkpoint has another layout, or every one is damaged.
        """
        self.wait()
        host = self._read(abstract) if self._group.is_first else None
        if not self._group.from_first(host is not None):
            return None
        if host is None:
            host = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), abstract)
        host = self._group.arrays_from_first(host)
        place = jax.tree.leaves(abstract)[0].sharding
        return jax.device_put(host) if place is None else sharding.put(host, place)

    def _read(self, abstract: PyTree) -> PyTree | None:
        """The newest undamaged state as NumPy arrays, or None."""
        found = self.steps()
        for step in reversed(found):
            try:
                manifest = self.manifest(step)
                self._refuse_other_layout(step, manifest["layout"], layout(abstract))
                return self._restore_step(step, abstract, manifest["digests"])
            except InputError:
                raise
            except Exception as error:  # whatever Orbax raises on damaged files
                self._set_aside(step, error)
        if found or any(self._directory.glob("*.damaged*")):
            raise InputError(
                f"no checkpoint in {self._directory} can be read, see *.damaged; "
                "remove the folder to start anew"
            )
        return None

    def _refuse_other_layout(self, step: int, theirs: dict[str, str], ours: dict[str, str]) -> None:
        """Orbax casts to the dtype asked for without a word, and must not be asked."""
        for name in sorted(theirs.keys() | ours.keys()):
            if theirs.get(name) != ours.get(name):
                raise InputError(
                    f"{self._directory / str(step)} is no state of this run: {name} is "
                    f"{theirs.get(name, 'missing')} there and {ours.get(name, 'missing')} here"
                )

    def _restore_step(self, step: int, abstract: PyTree, expected: dict[str, str]) -> PyTree:
        on_host = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), abstract)
        restored = self._checkpointer.restore(
            self._directory / str(step),
            args=ocp.args.Composite(
                state=ocp.args.PyTreeRestore(
                    on_host, ocp.checkpoint_utils.construct_restore_args(on_host)
                )
            ),
        )
        actual = digests(restored.state)
        wrong = sorted(name for name in actual if expected.get(name) != actual[name])
        if wrong:
            raise ValueError(f"{len(wrong)} arrays differ from their digest, first {wrong[0]}")
        return restored.state

    def _write(self, step: int, copied: PyTree, manifest: dict[str, Any]) -> None:
        """Writes a checkpoint, at the second try if need be, and removes those it replaces."""
        state = sharding.to_host(copied)
        bad = [path for path, leaf in _leaves(state).items() if not _is_finite(leaf)]
        if bad:
            raise NotSaved(f"the state of step {step} is not finite, first in {bad[0]}")
        record = {**manifest, "layout": layout(state), "digests": digests(state)}
        record["seal"] = _seal(json.loads(json.dumps(record)))
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
        with _ONE_SAVE:
            self._checkpointer.save(
                self._directory / str(step),
                args=ocp.args.Composite(
                    state=ocp.args.PyTreeSave(state), manifest=ocp.args.JsonSave(record)
                ),
            )

    def _remove(self, step: int) -> None:
        """Removes a checkpoint; a kill on the way leaves no half of one under its name."""
        target = self._directory / f"{step}.removed"
        (self._directory / str(step)).rename(target)
        shutil.rmtree(target)

    def _sweep(self) -> None:
        """Removes what killed or failed processes left half written or half removed."""
        for pattern in ("*.orbax-checkpoint-tmp*", "*.removed"):
            for path in self._directory.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)

    def _set_aside(self, step: int, error: Exception) -> None:
        source = self._directory / str(step)
        target = self._directory / f"{step}.damaged"
        number = 1
        while target.exists():
            number += 1
            target = self._directory / f"{step}.damaged{number}"
        source.rename(target)
        logging.error(
            "Checkpoint %s is damaged (%s); set aside as %s, using the one before.",
            source,
            _first_line(error),
            target.name,
        )


class _WholeReads(ocp.type_handlers.NumpyHandler):
    """Waits for the reads of all arrays, also where one of them fails.

    Orbax gives up at the first error and closes its event loop, and every read that is still under
    way prints a traceback, since it has nobody to report to.
    """

    async def deserialize(self, infos: Sequence[Any], args: Any = None) -> list[np.ndarray]:
        """Reads arrays."""
        reads = (
            super(_WholeReads, self).deserialize([info], [arg])
            for info, arg in zip(infos, args or [ocp.RestoreArgs()] * len(infos))
        )
        found = await asyncio.gather(*reads, return_exceptions=True)
        whole = []
        for result in found:
            if isinstance(result, BaseException):
                raise result
            whole.append(result[0])
        return whole


def _checkpointer() -> ocp.Checkpointer:
    """One that works in a single process of several, and waits for no other."""
    alone = ocp.options.MultiprocessingOptions(
        primary_host=jax.process_index(), active_processes={jax.process_index()}
    )
    handlers = ocp.DefaultCheckpointHandlerRegistry()
    types = ocp.type_handlers.create_type_handler_registry(
        (np.ndarray, _WholeReads()),
        (jax.Array, ocp.type_handlers.ArrayHandler()),  # missed with a warning, never used
    )
    # Compressing random digits takes a third of a save's and a restore's time for 7 % of the space.
    state = ocp.PyTreeCheckpointHandler(
        use_compression=False, multiprocessing_options=alone, type_handler_registry=types
    )
    manifest = ocp.JsonCheckpointHandler(multiprocessing_options=alone)
    handlers.add("state", ocp.args.PyTreeSave, state)
    handlers.add("state", ocp.args.PyTreeRestore, state)
    handlers.add("manifest", ocp.args.JsonSave, manifest)
    handlers.add("manifest", ocp.args.JsonRestore, manifest)
    options = ocp.CompositeOptions(multiprocessing_options=alone)
    return ocp.Checkpointer(
        ocp.CompositeCheckpointHandler(handler_registry=handlers, composite_options=options),
        multiprocessing_options=alone,
    )


def _is_finite(leaf: np.ndarray) -> bool:
    return not jax.numpy.issubdtype(leaf.dtype, np.inexact) or bool(np.isfinite(leaf).all())


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
