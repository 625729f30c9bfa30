"""Storage of one checkpoint: digests, the seal of the manifest, uncompressed arrays."""

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from socialjepa_jax.running.storage import Storage, digests, sealed


def test_digests_depend_on_value_dtype_and_shape():
    base = digests({"a": np.zeros(4, np.float32)})
    for other in (np.ones(4, np.float32), np.zeros(4, np.int32), np.zeros((2, 2), np.float32)):
        assert digests({"a": other}) != base
    assert digests({"a": np.zeros(4, np.float32)}) == base


def test_arrays_are_stored_uncompressed_and_compressed_ones_are_read(tmp_path, monkeypatch):
    """Random digits do not shrink; a checkpoint of an older version may be compressed."""
    state, handler = {"x": np.zeros(1 << 18, np.float32)}, ocp.PyTreeCheckpointHandler
    sizes = []
    for compressed in (False, True):
        folder = tmp_path / str(compressed)
        with monkeypatch.context() as patch:
            if compressed:
                older = lambda **kwargs: handler(**{**kwargs, "use_compression": True})  # noqa: E731
                patch.setattr(ocp, "PyTreeCheckpointHandler", older)
            Storage().write(folder, state, {})
        sizes.append(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))
        restored = Storage().state(folder, jax.eval_shape(lambda: state), digests(state))
        assert digests(restored) == digests(state)
    assert sizes[0] > 4 * (1 << 18) > 10 * sizes[1]


def test_an_altered_manifest_is_refused(tmp_path):
    storage = Storage()
    storage.write(tmp_path / "1", {"x": np.zeros(4)}, sealed({"config": {"name": "x"}}))
    assert storage.manifest(tmp_path / "1")["config"] == {"name": "x"}
    path = next((tmp_path / "1" / "manifest").iterdir())
    path.write_text(path.read_text().replace('"x"', '"y"'))
    with pytest.raises(ValueError, match="manifest differs"):
        storage.manifest(tmp_path / "1")
