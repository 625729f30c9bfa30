"""Every experiment runs through at the smallest scale and leaves the files that readers expect."""

import json

import numpy as np
import pytest
from scipy import stats

from experiments import findings, reproduce
from socialjepa_jax.errors import InputError
from tests.data.reacher import arm


def check(out, name):
    """The files of one experiment, as the report's readers expect them."""
    found = json.loads((out / f"{name}.json").read_text())
    assert {"name", "scale", "environment", "claims", "rows", "settings"} <= set(found)
    assert (found["name"], found["scale"]) == (name, "smoke")
    assert found["claims"] and found["rows"]
    for claim in found["claims"]:
        assert set(claim) == {"id", "paper", "ours", "agrees", "note", "std"}
        assert isinstance(claim["agrees"], bool)
        assert claim["ours"] is None or np.isfinite(claim["ours"])  # None: not a number
        note = claim["note"].removeprefix(f"{findings.VERDICTS[claim['agrees']]}: ")
        assert note != claim["note"] and note.endswith(".")
        assert not note.startswith(tuple(findings.VERDICTS.values()))  # stated once
    pictures = list(out.glob(f"{name}*.png"))
    assert pictures
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in pictures)
    return found


@pytest.mark.nightly
def test_a_sweep_and_what_is_made_of_its_runs(tmp_path):
    page = reproduce.reproduce(["id_grid", "id_bound"], "smoke", tmp_path)
    grid = check(tmp_path, "id_grid")
    bound = check(tmp_path, "id_bound")
    assert len(bound["rows"]) == len(grid["rows"]) == 2
    assert {row["experiment"] for row in bound["rows"]} == {"id_grid"}
    best, cell = grid["claims"][:2]
    top = max(grid["rows"], key=lambda row: row["r2_hz"])
    assert best["id"] == "best/r2_hz" and best["ours"] == top["r2_hz"]
    assert (
        f"lambda {top['lambda']:g} at rho {top['rho']:g}, has R² {best['ours']:.4f}"
        in (cell["note"])
    )
    smallest, delta = bound["claims"]
    scores = [row["slack"] / row["slack_std"] for row in bound["rows"]]
    assert smallest["ours"] == min(scores)
    above = sum(score < 0 for score in scores)
    assert f"{above} of 2 runs lie above" in smallest["note"]
    assert f"by {min(scores):.1f} standard errors" in smallest["note"]
    ranks = [stats.rankdata([row[name] for row in bound["rows"]]) for name in ("delta", "epsilon")]
    error = stats.rankdata([row["procrustes_mse"] for row in bound["rows"]])
    for name, rank in zip(("delta", "epsilon"), ranks):
        assert f"{np.corrcoef(rank, error)[0, 1]:.2f} for {name}" in delta["note"]
    assert delta["ours"] == pytest.approx(np.corrcoef(ranks[0], error)[0, 1])
    text = page.read_text()
    assert 'id="id_grid"' in text
    assert f"of {len(grid['claims']) + len(bound['claims'])} claims agree" in text


@pytest.mark.nightly
@pytest.mark.parametrize("name", reproduce.NAMES)
def test_every_experiment_runs_through(name, tmp_path, monkeypatch):
    if name in reproduce.OPTIONAL:
        arm.stand_in(monkeypatch)
    reproduce.reproduce([name], "smoke", tmp_path)
    check(tmp_path, name)


def test_refuses_an_unknown_experiment(tmp_path):
    with pytest.raises(InputError, match="--only=id_3d"):
        reproduce.reproduce(["id_3d"], "smoke", tmp_path)


def test_a_pattern_names_experiments():
    found = reproduce.matching("id_*")
    assert len(found) == 17 and found[0] == "id_2d" and all(n.startswith("id_") for n in found)
    assert reproduce.matching("table9") == ["table9"]
    with pytest.raises(InputError, match=r"--only=nothing\*: no such experiment"):
        reproduce.matching("nothing*")


@pytest.mark.parametrize("flag", ["eth80", "trajectories", "frames"])
def test_a_file_must_exist(flag, tmp_path):
    with pytest.raises(InputError, match=rf"--{flag}=nowhere\.npz"):
        reproduce.reproduce(["lejepa_ablations"], "smoke", tmp_path, **{flag: "nowhere.npz"})


def test_a_missing_simulator_ends_only_what_was_asked_for(tmp_path, monkeypatch, caplog):
    def missing(scale, out):
        raise InputError("no MuJoCo")

    nothing = findings.Finding("nothing", [], {}, [])
    monkeypatch.setattr(reproduce, "NAMES", ("reacher_ou", "sigreg_quadrature"))
    monkeypatch.setattr("experiments.reacher.ou.run", missing)
    monkeypatch.setattr("experiments.sigreg.quadrature.run", lambda scale, out: nothing)
    reproduce.reproduce([], "smoke", tmp_path)
    assert "reacher_ou is left out: no MuJoCo" in caplog.text
    assert (tmp_path / "sigreg_quadrature.json").exists()
    with pytest.raises(InputError, match="no MuJoCo"):
        reproduce.reproduce(["reacher_ou"], "smoke", tmp_path)


def test_calls_into_one_folder_extend_its_page(tmp_path):
    reproduce.reproduce(["sigreg_quadrature"], "smoke", tmp_path)
    before = json.loads((tmp_path / "sigreg_quadrature.json").read_text())
    reproduce.reproduce(["lejepa_probes"], "smoke", tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.index('id="sigreg_quadrature"') < page.index('id="lejepa_probes"')
    parts = [findings.section(n, tmp_path) for n in ("sigreg_quadrature", "lejepa_probes")]
    verdicts = [v for part in parts for v in part.verdicts]
    assert f"{sum(verdicts)} of {len(verdicts)} claims agree" in page
    for claim in before["claims"]:
        assert claim["id"] in page
    assert page.count("<img") == 3 + 4
    assert "Scale smoke tests the program: its numbers and verdicts mean nothing." in page
    assert findings.section("sigreg_x", tmp_path) is None
