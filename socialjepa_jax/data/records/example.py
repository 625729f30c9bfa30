"""Reads `tf.train.Example` messages, the records of most ArrayRecord files, without TensorFlow.

Example {Features features = 1}; Features {map<string, Feature> feature = 1};
Feature {oneof {BytesList = 1, FloatList = 2, Int64List = 3}}; each list {repeated value = 1}.
Encoding: protobuf's wire format, https://protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Iterator
from typing import TypeVar

from socialjepa_jax.errors import shown

Value = TypeVar("Value", bytes, int)
Field = memoryview | int
Features = dict[str, list[bytes] | list[int]]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT = 10  # bytes


def parse(record: bytes) -> Features:
    """Returns the bytes and integer features of a message; floats are left out.

    Raises:
        ValueError: the record is no such message.
    """
    features: Features = {}
    for container in _of(memoryview(record), 1):
        for entry in _of(container, 1):
            name = b"".join(_of(entry, 1)).decode()
            for feature in _of(entry, 2):
                for kind, content in _fields(feature):
                    if kind == 1:
                        features[name] = [bytes(value) for value in _of(_message(content), 1)]
                    elif kind == 3:
                        features[name] = _integers(_message(content))
    if not features:
        raise ValueError("is no tf.train.Example with features")
    return features


def only(features: Features, name: str, kind: type[Value]) -> Value:
    """Returns the one value of a feature.

    Raises:
        ValueError: there is no such feature, or it has another type or number of values.
    """
    values = features.get(name)
    if values is None:
        raise ValueError(f"has no feature {shown(name)}, it has {', '.join(sorted(features))}")
    if len(values) != 1 or not isinstance(values[0], kind):
        raise ValueError(f"feature {shown(name)} must be one value of type {kind.__name__}")
    return values[0]


def _of(message: memoryview, number: int) -> Iterator[memoryview]:
    """Yields the contents of the fields of one number."""
    return (_message(content) for found, content in _fields(message) if found == number)


def _message(content: Field) -> memoryview:
    if isinstance(content, int):
        raise ValueError("is no tf.train.Example: a number where a message should be")
    return content


def _integers(message: memoryview) -> list[int]:
    """Returns the values of an Int64List, packed or not."""
    values: list[int] = []
    for number, content in _fields(message):
        if number == 1 and isinstance(content, int):
            values.append(content)
        elif number == 1:
            packed, at = _message(content), 0
            while at < len(packed):
                value, at = _varint(packed, at)
                values.append(value)
    return [value - (1 << 64) if value >> 63 else value for value in values]


def _fields(message: memoryview) -> Iterator[tuple[int, Field]]:
    """Yields the number and the content of every field; floats are passed over."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(message, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"is no tf.train.Example: wire type {wire}")
        if at + size > len(message):
            raise ValueError("is no tf.train.Example: it ends within a field")
        if wire == _BYTES:
            yield number, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Returns the integer at a place, and the place behind it."""
    value = 0
    for shift, byte in enumerate(message[at : at + _MAX_VARINT]):
        value |= (byte & 127) << 7 * shift
        if not byte & 128:
            return value & (1 << 64) - 1, at + shift + 1
    raise ValueError("is no tf.train.Example: a number does not end")
