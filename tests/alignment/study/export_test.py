import runpy
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import reference
from safetensors.numpy import load_file

from socialjepa_jax.alignment import fit
from socialjepa_jax.alignment.study import export
from socialjepa_jax.alignment.study.novelty import fit_novelty, save_novelty


def small_map():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 4)) + 2
    y = x @ rng.normal(size=(4, 3)) + rng.normal(size=(60, 3))
    return fit(x, y), x, y


def test_snippet_applies_the_saved_map(tmp_path):
    linear_map, x, y = small_map()
    linear_map.save(tmp_path / "map.npz")
    novelty = {"x": fit_novelty(x), "y": fit_novelty(y)}
    save_novelty(novelty, tmp_path / "novelty.npz")
    (tmp_path / "apply_map.py").write_text(export.NUMPY_SNIPPET)
    names = runpy.run_path(str(tmp_path / "apply_map.py"))  # from another folder
    np.testing.assert_array_equal(names["forward"](x), linear_map.forward(x))
    np.testing.assert_array_equal(names["backward"](y), linear_map.backward(y, "regression"))
    for space, z in (("x", x), ("y", y)):
        score, expected = names[f"novelty_{space}"], novelty[space].score(3 * z)
        np.testing.assert_array_equal(score(3 * z), expected)
        assert score(3 * z[7]) == novelty[space].score(3 * z[7]) == expected[7]  # one vector
    unit = names["unit_norm"](np.concatenate([x, np.zeros_like(x[:1])]))
    np.testing.assert_allclose(unit[:-1], x / np.sqrt((x**2).sum(1, keepdims=True)))
    assert not unit[-1].any()
    names["m"].close()
    names["n"].close()


@pytest.mark.parametrize("options", [[], ["--back"], ["--unit_norm"]])
def test_snippet_is_a_program(tmp_path, options):
    linear_map, x, y = small_map()
    linear_map.save(tmp_path / "map.npz")
    save_novelty({"x": fit_novelty(x), "y": fit_novelty(y)}, tmp_path / "novelty.npz")
    (tmp_path / "apply_map.py").write_text(export.NUMPY_SNIPPET)
    np.save(tmp_path / "in.npy", y if options == ["--back"] else x)
    paths = [str(tmp_path / name) for name in ("apply_map.py", "in.npy", "out.npy")]
    subprocess.run([sys.executable, *paths, *options], check=True)
    found = np.load(tmp_path / "out.npy")
    expected = (
        linear_map.backward(y, "regression") if options == ["--back"] else linear_map.forward(x)
    )
    if options == ["--unit_norm"]:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    wrong = subprocess.run([sys.executable, *paths, "--fast"], capture_output=True, text=True)
    assert wrong.returncode == 1 and "python apply_map.py in.npy out.npy" in wrong.stderr


def test_safetensors_holds_both_directions(tmp_path):
    linear_map, x, y = small_map()
    export.to_safetensors(linear_map, tmp_path / "map.safetensors")
    t = load_file(tmp_path / "map.safetensors")
    forward = x @ t["forward.weight"].T + t["forward.bias"]
    np.testing.assert_allclose(forward, linear_map.forward(x), atol=1e-5)
    backward = y @ t["backward.weight"].T + t["backward.bias"]
    np.testing.assert_allclose(backward, linear_map.backward(y, "regression"), atol=1e-5)


def fields(data):
    """Decodes one protobuf message: field number -> values."""
    found: dict = {}
    position = 0

    def varint():
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while position < len(data):
        tag = varint()
        if tag & 7 == 2:
            length = varint()
            value = data[position : position + length]
            position += length
        else:
            value = varint()
        found.setdefault(tag >> 3, []).append(value)
    return found


@pytest.mark.parametrize("back", [None, "inverse"])
def test_onnx_itself_accepts_and_runs_the_model(tmp_path, back):
    linear_map, x, y = small_map()
    export.to_onnx(linear_map, tmp_path / "map.onnx", back=back)
    model = onnx.load(tmp_path / "map.onnx")
    onnx.checker.check_model(model, full_check=True)
    z, expected = (x, linear_map.forward(x)) if back is None else (y, linear_map.backward(y, back))
    found, unit = reference.ReferenceEvaluator(model).run(None, {"x": z.astype(np.float32)})
    assert found.dtype == unit.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-4)
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, expected / lengths, atol=1e-4)


@pytest.mark.parametrize("back", [None, "regression"])
def test_onnx_graph_is_a_product_a_sum_and_a_norm(tmp_path, back):
    linear_map, x, y = small_map()
    export.to_onnx(linear_map, tmp_path / "map.onnx", back=back)
    model = fields((tmp_path / "map.onnx").read_bytes())
    assert model[1] == [8]
    assert fields(model[8][0])[2] == [13]
    graph = fields(model[7][0])
    nodes = [fields(node) for node in graph[1]]
    assert [node[4][0] for node in nodes] == [b"MatMul", b"Add", b"LpNormalization"]
    assert nodes[0][1] == [b"x", b"matrix"]
    assert nodes[1][1] == [nodes[0][2][0], b"offset"]
    tensors = {}
    for raw in graph[5]:
        tensor = fields(raw)
        assert tensor[2] == [1]  # FLOAT
        tensors[tensor[8][0]] = np.frombuffer(tensor[9][0], "<f4").reshape(tensor[1])
    z, expected = (x, linear_map.forward(x)) if back is None else (y, linear_map.backward(y, back))
    got = z @ tensors[b"matrix"] + tensors[b"offset"]
    np.testing.assert_allclose(got, expected, atol=1e-5)
