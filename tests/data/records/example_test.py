"""Examples of TensorFlow's wire format: what others write is read, damage is a ValueError."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.bench import input_files
from socialjepa_jax.data.records import example

VALUES = st.one_of(st.binary(max_size=300), st.integers(-(2**63), 2**63 - 1))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.dictionaries(st.text(max_size=9), VALUES, min_size=1, max_size=5))
def test_features_come_back(features):
    found = example.parse(input_files.example(features))
    assert found == {name: [value] for name, value in features.items()}
    for name, value in features.items():
        assert example.only(found, name, type(value)) == value


def test_what_tensorflow_datasets_writes_is_read():
    from tests.data.records.tiny_dataset import tfds

    features = tfds.features.FeaturesDict(
        {
            "label": tfds.features.ClassLabel(num_classes=300),
            "many": tfds.features.Sequence(np.int64),
            "share": tfds.features.Scalar(np.float32),
            "text": tfds.features.Text(),
        }
    )
    values = {"label": 299, "many": [-1, 0, 2**40], "share": 0.5, "text": "naïve"}
    found = example.parse(features.serialize_example(features.encode_example(values)))
    assert found == {"label": [299], "many": [-1, 0, 2**40], "text": ["naïve".encode()]}


def test_numbers_may_be_unpacked():
    """Two fields of one varint each, as proto2 writes repeated numbers."""
    inside = bytes([0x08, 5, 0x08, 7])  # field 1, varint, twice
    feature = bytes([0x1A, len(inside)]) + inside
    entry = bytes([0x0A, 1]) + b"n" + bytes([0x12, len(feature)]) + feature
    features = bytes([0x0A, len(entry)]) + entry
    assert example.parse(bytes([0x0A, len(features)]) + features) == {"n": [5, 7]}


def test_damage_of_any_kind_is_a_value_error():
    record, rng = input_files.example({"image": b"x" * 40, "label": 2}), np.random.default_rng(0)
    refused = 0
    for length in range(len(record)):
        with pytest.raises(ValueError, match=r"no tf\.train\.Example"):
            example.parse(record[:length])
    for _ in range(500):
        damaged = bytearray(record)
        damaged[rng.integers(len(record))] = rng.integers(256)
        try:
            example.parse(bytes(damaged))
        except ValueError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    "name, kind, words", [("b", int, "no feature 'b'"), ("a", int, "type int")]
)
def test_other_features_are_named(name, kind, words):
    with pytest.raises(ValueError, match=words):
        example.only({"a": [b"x"]}, name, kind)
    with pytest.raises(ValueError, match="one value"):
        example.only({"a": [1, 2]}, "a", int)
