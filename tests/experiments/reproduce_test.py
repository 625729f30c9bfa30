"""Every identifiability experiment runs through at the smallest scale and leaves what it should."""

import json

import pytest

from experiments import findings, reproduce
from socialjepa_jax.errors import InputError


def check(out, name):
    """The files of one experiment, as the report's readers expect them."""
    found = json.loads((out / f"{name}.json").read_text())
    assert {"name", "scale", "environment", "claims", "rows", "settings"} <= set(found)
    assert (found["name"], found["scale"]) == (name, "smoke")
    assert found["claims"] and found["rows"]
    for claim in found["claims"]:
        assert set(claim) == {"id", "paper", "ours", "agrees", "note", "std"}
        assert isinstance(claim["agrees"], bool)
        assert claim["note"]
    pictures = list(out.glob(f"{name}*.png"))
    assert pictures
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in pictures)
    return found


def test_a_sweep_and_what_is_made_of_its_runs(tmp_path):
    page = reproduce.reproduce(["id_grid", "id_bound"], "smoke", tmp_path)
    grid = check(tmp_path, "id_grid")
    bound = check(tmp_path, "id_bound")
    assert len(bound["rows"]) == len(grid["rows"]) == 2
    assert {row["experiment"] for row in bound["rows"]} == {"id_grid"}
    text = page.read_text()
    assert 'id="id_grid"' in text
    assert f"of {len(grid['claims']) + len(bound['claims'])} claims agree" in text


@pytest.mark.nightly
@pytest.mark.parametrize("name", reproduce.NAMES)
def test_every_experiment_runs_through(name, tmp_path):
    reproduce.reproduce([name], "smoke", tmp_path)
    check(tmp_path, name)


def test_refuses_an_unknown_experiment(tmp_path):
    with pytest.raises(InputError, match="--only=id_3d"):
        reproduce.reproduce(["id_3d"], "smoke", tmp_path)


def test_rows_are_selected_and_averaged_by_their_columns():
    rows = [{"a": 1, "x": 2.0}, {"a": 1, "x": 4.0}, {"a": 2, "x": 9.0}]
    assert findings.mean(rows, "x", a=1) == 3.0
    assert findings.spread(rows, "x", a=1) == 1.0
    assert findings.select(rows, a=2) == [{"a": 2, "x": 9.0}]
    assert findings.distinct(rows, "a") == [1, 2]
    assert findings.mean(rows, "x", a=3) != findings.mean(rows, "x", a=3)  # NaN
