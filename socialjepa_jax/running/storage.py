"""Storage of a single checkpoint: arrays and a manifest, written and read by Orbax.

Orbax restores flipped bits without an error, so a manifest holds the SHA-256 of every array, and a
seal, the SHA-256 of the rest of the manifest.
"""

import asyncio
import hashlib
import json
import logging
import pathlib
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

PyTree = Any

# Orbax numbers the saves of a process, and two saves at once (of the newest and of the best state)
# take each other's "directory created" signal for their own.
_ONE_SAVE = threading.Lock()


def leaves(tree: PyTree) -> dict[str, Any]:
    """Returns the leaves of a pytree by their path."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in paths}


def digests(tree: PyTree) -> dict[str, str]:
    """Returns the SHA-256 over dtype, shape and bytes of every array, by its path."""
    result = {}
    for path, leaf in leaves(jax.device_get(tree)).items():
        array = np.asarray(leaf, order="C")
        digest = hashlib.sha256(f"{array.dtype}{array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
        result[path] = digest.hexdigest()
    return result


def layout(tree: PyTree) -> dict[str, str]:
    """Returns dtype and shape of every array or `jax.ShapeDtypeStruct`, by its path."""
    return {path: f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in leaves(tree).items()}


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the manifest as JSON stores it, with its seal."""
    rest = {name: value for name, value in manifest.items() if name != "seal"}
    plain = json.loads(json.dumps(rest))
    seal = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    return {**plain, "seal": seal}


class Storage:
    """Writes and reads checkpoints in this process alone, also if the run has several."""

    def __init__(self) -> None:
        self._checkpointer = _checkpointer()

    def close(self) -> None:
        """Ends the threads of Orbax."""
        self._checkpointer.close()

    def write(self, path: pathlib.Path, state: PyTree, manifest: Mapping[str, Any]) -> None:
        """Writes NumPy arrays and a sealed manifest, and commits them by an atomic rename."""
        state_args, manifest_args = ocp.args.PyTreeSave(state), ocp.args.JsonSave(manifest)
        with _ONE_SAVE:
            self._checkpointer.save(
                path, args=ocp.args.Composite(state=state_args, manifest=manifest_args)
            )

    def manifest(self, path: pathlib.Path) -> dict[str, Any]:
        """Returns the manifest of a checkpoint.

        Raises:
            ValueError: the manifest differs from its seal.
            Exception: Orbax cannot read it.
        """
        args = ocp.args.Composite(manifest=ocp.args.JsonRestore())
        manifest = self._checkpointer.restore(path, args=args).manifest
        if manifest.get("seal") != sealed(manifest)["seal"]:
            raise ValueError("the manifest differs from its digest")
        return manifest

    def state(self, path: pathlib.Path, abstract: PyTree, expected: Mapping[str, str]) -> PyTree:
        """Returns the arrays of a checkpoint as NumPy arrays.

        Args:
            path: the checkpoint.
            abstract: pytree with the layout of the arrays. Orbax would cast other dtypes silently.
            expected: digests of the arrays.

        Raises:
            ValueError: an array differs from its digest.
            Exception: Orbax cannot read it.
        """
        on_host = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), abstract)
        args = ocp.args.PyTreeRestore(on_host, ocp.checkpoint_utils.construct_restore_args(on_host))
        state = self._checkpointer.restore(path, args=ocp.args.Composite(state=args)).state
        actual = digests(state)
        wrong = sorted(name for name in actual if expected.get(name) != actual[name])
        if wrong:
            raise ValueError(f"{len(wrong)} arrays differ from their digest, first {wrong[0]}")
        return state


class _PatientNumpyHandler(ocp.type_handlers.NumpyHandler):
    """Waits for the reads or writes of all arrays before it raises the first error.

    Orbax raises at the first error and closes its event loop. Each read or write that is still
    under way then prints a traceback.
    """

    async def deserialize(self, infos: Sequence[Any], args: Any = None) -> list[np.ndarray]:
        """Reads arrays."""
        args = args or [ocp.RestoreArgs()] * len(infos)
        read = super().deserialize
        return [array for (array,) in await _all(read([i], [a]) for i, a in zip(infos, args))]

    async def _background_serialize(
        self, values: Sequence[Any], infos: Sequence[Any], args: Any = None
    ) -> None:
        """Writes arrays; the part of `serialize` that waits, which has no public name."""
        args = args or [ocp.SaveArgs()] * len(infos)
        write = super()._background_serialize
        await _all(write([v], [i], [a]) for v, i, a in zip(values, infos, args))


async def _all(coroutines: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Returns all results; raises the first error once all have ended."""
    results = await asyncio.gather(*coroutines, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _is_news(record: logging.LogRecord) -> bool:
    """False for errors that Orbax logs with a traceback, and raises too."""
    return "orbax" not in record.pathname or not record.exc_info


def _checkpointer() -> ocp.Checkpointer:
    """Returns a checkpointer that synchronises with no other process of the run."""
    logging.getLogger("absl").addFilter(_is_news)
    alone = ocp.options.MultiprocessingOptions(
        primary_host=jax.process_index(), active_processes={jax.process_index()}
    )
    handlers = ocp.DefaultCheckpointHandlerRegistry()
    types = ocp.type_handlers.create_type_handler_registry(
        (np.ndarray, _PatientNumpyHandler()),
        (jax.Array, ocp.type_handlers.ArrayHandler()),  # unused; Orbax warns if it is missing
    )
    # Compression of random digits takes a third of a save's and a restore's time and saves 7 %.
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
