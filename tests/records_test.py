import json

import numpy as np
import pytest

from socialjepa_jax.records import CONTROLS, PARTIALLED, RowName, write_json


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


def test_row_names_are_plain_text_in_files_and_tables(tmp_path):
    write_json(tmp_path / "a.json", {"row": RowName.PIXEL_PCA, RowName.TRAINED: 1})
    assert json.loads((tmp_path / "a.json").read_text()) == {"row": "pixel_pca", "trained": 1}
    assert f"{RowName.SAME_CAMERA}" == "same_camera" and RowName.UNTRAINED == "untrained"


def test_a_partialled_row_is_no_control_and_has_the_name_of_its_source():
    assert not set(PARTIALLED.values()) & set(CONTROLS)
    named = {f"{row}_partialled" for row in PARTIALLED if row != RowName.TRAINED}
    assert set(PARTIALLED.values()) == {"partialled", *named}
