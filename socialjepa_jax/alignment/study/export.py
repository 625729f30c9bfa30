"""Export of a fitted map: safetensors, ONNX, and a NumPy script that applies map.npz.

The ONNX file is encoded here (protobuf wire format of six messages) because the tool always
writes one, and the onnx package is optional.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np
from safetensors.numpy import save

from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64

Location = str | os.PathLike[str]

NUMPY_SNIPPET = '''"""Applies map.npz to embeddings; needs NumPy only.

As a program: python apply_map.py in.npy out.npy [--back] [--unit_norm]
"""
import sys
from pathlib import Path

import numpy as np

folder = Path(__file__).parent
m = np.load(folder / "map.npz", allow_pickle=False)
n = np.load(folder / "novelty.npz", allow_pickle=False)


def forward(x):  # old space -> new space, [N, D] -> [N, E]
    return (x - m["x_mean"]) / m["x_scale"] @ m["w"].T * m["y_scale"] + m["y_mean"]


def backward(y):  # new space -> old space by the reverse regression, [N, E] -> [N, D]
    return (y - m["y_mean"]) / m["y_scale"] @ m["w_back"].T * m["x_scale"] + m["x_mean"]


def unit_norm(z):  # for searches by cosine, [N, D] -> [N, D]
    norms = np.linalg.norm(z, axis=1, keepdims=True)
    return z / np.where(norms == 0, 1, norms)


def novelty(z, space):  # share of training rows that lie nearer to their mean
    distances = np.linalg.norm((z - n[space + "_mean"]) @ n[space + "_whitening"], axis=-1)
    return np.searchsorted(n[space + "_distances"], distances) / len(n[space + "_distances"])


def novelty_x(x):  # [N, D] or one vector [D]; near 1: map forward with care
    return novelty(x, "x")


def novelty_y(y):  # [N, E] or one vector [E]; near 1: map back with care
    return novelty(y, "y")


if __name__ == "__main__":
    paths = [value for value in sys.argv[1:] if not value.startswith("--")]
    options = set(sys.argv[1:]) - set(paths)
    if len(paths) != 2 or options - {"--back", "--unit_norm"}:
        sys.exit(__doc__)
    z = np.load(paths[0], allow_pickle=False)
    z = backward(z) if "--back" in options else forward(z)
    np.save(paths[1], (unit_norm(z) if "--unit_norm" in options else z).astype(np.float32))
'''


def to_safetensors(linear_map: LinearMap, path: Location, *, back: str = "regression") -> None:
    """Writes both directions on raw latents as float32 weights in the layout of torch.nn.Linear.

    Args:
        linear_map: map.
        path: file to write, with the tensors `forward.weight` [E, D], `forward.bias` [E],
            `backward.weight` [D, E] and `backward.bias` [D].
        back: kind of `backward`.
    """
    tensors = {}
    affine = {"forward": linear_map.affine(), "backward": linear_map.affine_back(back)}
    for name, (matrix, offset) in affine.items():
        tensors[f"{name}.weight"] = np.ascontiguousarray(matrix.T, dtype=np.float32)
        tensors[f"{name}.bias"] = offset.astype(np.float32)
    with open(path, "wb") as file:
        file.write(save(tensors, metadata={"method": linear_map.method}))


def to_onnx(linear_map: LinearMap, path: Location, *, back: str | None = None) -> None:
    """Writes an ONNX model (opset 13, float32): input `x` [N, D], outputs `y` and `y_unit` [N, E].

    The rows of `y_unit` are those of `y` over their Euclidean norms, for searches by cosine.

    Args:
        linear_map: map.
        path: file to write.
        back: None for `forward` on raw latents, or the kind of `backward`.
    """
    affine = linear_map.affine() if back is None else linear_map.affine_back(back)
    with open(path, "wb") as file:
        file.write(_model(*affine))


# Field numbers are those of onnx.proto.


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _message(fields: Iterable[tuple[int, int | bytes | str]]) -> bytes:
    return b"".join(_field(number, value) for number, value in fields)


def _tensor(name: str, array: Float64) -> bytes:
    dims = [(1, size) for size in array.shape]
    return _message([*dims, (2, 1), (8, name), (9, array.astype("<f4").tobytes())])


def _value(name: str, features: int) -> bytes:
    shape = _message([(1, _field(2, "N")), (1, _field(1, features))])
    return _message([(1, name), (2, _field(1, _message([(1, 1), (2, shape)])))])


def _node(operator: str, inputs: tuple[str, ...], output: str) -> bytes:
    return _message([*((1, name) for name in inputs), (2, output), (4, operator)])


def _model(matrix_DE: Float64, offset_E: Float64) -> bytes:
    d, e = matrix_DE.shape
    graph = _message(
        [
            (1, _node("MatMul", ("x", "matrix"), "product")),
            (1, _node("Add", ("product", "offset"), "y")),
            (1, _node("LpNormalization", ("y",), "y_unit")),  # p = 2 over the last axis
            (2, "linear_map"),
            (5, _tensor("matrix", matrix_DE)),
            (5, _tensor("offset", offset_E)),
            (11, _value("x", d)),
            (12, _value("y", e)),
            (12, _value("y_unit", e)),
        ]
    )
    opset = _message([(1, ""), (2, 13)])
    return _message([(1, 8), (2, "socialjepa_jax"), (7, graph), (8, opset)])
