"""Checkpoints: Orbax behind `save` and `restore`, with a digest of every leaf.

Orbax commits a checkpoint by an atomic rename, so a killed save is never listed; but it restores
flipped bits as if they were good. Each checkpoint therefore carries a manifest with the SHA-256 of
every leaf, and what does not match it is set aside and the checkpoint before it is used.
"""

import hashlib
import json
import pathlib
from types import TracebackType
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging

from socialjepa_jax.validate import InputError

PyTree = Any


def digests(tree: PyTree) -> dict[str, str]:
    """SHA-256 over dtype, shape and bytes of every leaf, by its path in the tree."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(jax.device_get(tree))
    result = {}
    for path, leaf in leaves:
        array = np.asarray(leaf, order="C")
        head = f"{array.dtype}{array.shape}".encode()
        result[jax.tree_util.keystr(path)] = hashlib.sha256(head + array.tobytes()).hexdigest()
    return result


class Checkpoints:
    """The checkpoints of one run, newest last. Use as a context manager.

    Args:
        directory: where they lie; made if missing.
        keep: how many to keep.
    """

    def __init__(self, directory: pathlib.Path, keep: int) -> None:
        directory = directory.resolve()
        self._directory = directory
        options = ocp.CheckpointManagerOptions(max_to_keep=keep, cleanup_tmp_directories=True)
        self._manager = ocp.CheckpointManager(directory, options=options)

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._manager.close()

    def steps(self) -> list[int]:
        """The steps that have a complete checkpoint, ascending."""
        return sorted(self._manager.all_steps())

    def save(self, step: int, state: PyTree, manifest: dict[str, Any]) -> None:
        """Writes `state` as checkpoint `step` in the background.

        Args:
            step: updates done so far.
            state: pytree of arrays.
            manifest: what to remember beside it, JSON-able (configuration, versions).

        Raises:
            Exception: what made an earlier background save fail.
        """
        self._manager.check_for_errors()
        saved = self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state),
                manifest=ocp.args.JsonSave({**manifest, "digests": digests(state)}),
            ),
            force=True,
        )
        if not saved:
            raise RuntimeError(f"checkpoint {step} was not saved: {self._directory} holds a newer")

    def wait(self) -> None:
        """Returns when all saves are on disk; raises what made one of them fail."""
        self._manager.wait_until_finished()

    def restore(self, abstract: PyTree) -> PyTree | None:
        """Returns the newest undamaged state, or None if there is no checkpoint.

        Damaged checkpoints are reported, renamed to `<step>.damaged` and passed over.

        Args:
            abstract: what to restore into: `jax.ShapeDtypeStruct`s with shardings.

        Raises:
            InputError: there are checkpoints, but every one of them is damaged.
        """
        found = self.steps()
        for step in reversed(found):
            try:
                return self._restore_step(step, abstract)
            except Exception as error:  # whatever Orbax raises on damaged files
                self._set_aside(step, error)
        if found or any(self._directory.glob("*.damaged*")):
            raise InputError(
                f"no checkpoint in {self._directory} can be read, see *.damaged; "
                "remove the folder to start anew"
            )
        return None

    def _restore_step(self, step: int, abstract: PyTree) -> PyTree:
        restored = self._manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(abstract), manifest=ocp.args.JsonRestore()
            ),
        )
        expected, actual = restored.manifest["digests"], digests(restored.state)
        wrong = sorted(
            name
            for name in expected.keys() | actual.keys()
            if expected.get(name) != actual.get(name)
        )
        if wrong:
            raise ValueError(f"{len(wrong)} arrays differ from their digest, first {wrong[0]}")
        return restored.state

    def _set_aside(self, step: int, error: Exception) -> None:
        source = self._directory / str(step)
        target = self._directory / f"{step}.damaged"
        number = 1
        while target.exists():
            number += 1
            target = self._directory / f"{step}.damaged{number}"
        source.rename(target)
        self._manager.reload()
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        logging.error(
            "Checkpoint %s is damaged (%s); set aside as %s, using the one before.",
            source,
            first_line,
            target.name,
        )


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes JSON so that a reader sees the old file or the new one, never a part of it."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, indent=2) + "\n")
    temporary.replace(path)
