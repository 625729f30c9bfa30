import json
import os
import pathlib

import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.records import CONTROLS, PARTIALLED, RowName, json_lines, local_path, write_json


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


def test_lines_are_read_one_by_one(tmp_path):
    path = tmp_path / "m.jsonl"
    assert list(json_lines(path)) == []
    good = {"step": 3, "kind": "eval", "é\u2028": 1}  # a separator of lines in text alone
    text = json.dumps(good, ensure_ascii=False).encode()
    path.write_bytes(text + b"\n\xff\n" + text + b'\n{"step": 4, "kin')
    assert list(json_lines(path)) == [(text, good), (b"\xff", None), (text, good)]
    path.write_bytes(text)  # whole, but for its end
    assert list(json_lines(path)) == [(text, good)]


def test_local_paths_have_their_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert local_path("--x", "~/a b/é%20") == tmp_path / "a b" / "é%20"
    assert local_path("--x", pathlib.Path("c/../d:e")) == tmp_path / "d:e"
    (tmp_path / "link").symlink_to(tmp_path / "e")
    assert local_path("--x", "link/f") == tmp_path / "e" / "f"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("gs://bucket/run", "only local paths are supported"),
        (pathlib.Path("gs://bucket/run"), "only local paths are supported"),
        ("s3://bucket", "only local paths are supported"),
        ("https://host/x", "only local paths are supported"),
        ("~nosuchuser/x", "home directory"),
        ("{tmp}/loop/x", "loop"),
        ("nul\0", "null"),
        (os.fsdecode(b"\xff"), "utf-8"),
    ],
)
def test_addresses_and_paths_that_lead_nowhere_are_refused(tmp_path, path, words):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    if isinstance(path, str):
        path = path.replace("{tmp}", str(tmp_path))
    with pytest.raises(InputError, match=f"--workdir=.*{words}") as refused:
        local_path("--workdir", path)
    str(refused.value).encode()  # can be printed
