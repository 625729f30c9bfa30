import json

import numpy as np
import pytest

from socialjepa_jax.records import write_json


def test_what_json_does_not_know_becomes_null_or_plain(tmp_path):
    value = {
        "nan": np.nan,
        "deep": [np.float32("inf"), (1, "a")],
        "array": np.arange(2),
        "no": None,
    }
    write_json(tmp_path / "a.json", value)
    found = json.loads((tmp_path / "a.json").read_text())
    assert found == {"nan": None, "deep": [None, [1, "a"]], "array": [0, 1], "no": None}


def test_a_value_that_cannot_be_written_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "a.json", [1])
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", [object()])
    assert json.loads((tmp_path / "a.json").read_text()) == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
