"""A small run of the preset in motion, end to end: its files, its rows, an exact resumption."""

import json
import shutil

import chex
import jax
import numpy as np
import pytest

import socialjepa_jax as sj
from configs import motion_lejepa, smoke
from socialjepa_jax import alignment, build, loop
from socialjepa_jax import config as config_lib
from socialjepa_jax.alignment.actions import fit_by_actions, response
from socialjepa_jax.data.toys import moving
from socialjepa_jax.errors import InputError
from socialjepa_jax.evaluation.splits import splits
from socialjepa_jax.performance import hardware
from socialjepa_jax.report.run import page as run_page


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    """No more images are rendered at once than there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moving, "_BLOCK", 64)
        yield


@pytest.fixture(scope="module")
def experiment():
    config = smoke.shrink(motion_lejepa.get_config(), steps=4)
    config.run.eval_every = config.run.save_every = 2
    return config_lib.from_config_dict(config)


@pytest.fixture(scope="module")
def straight(experiment, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs") / "straight"
    return loop.fit(experiment, workdir), workdir


def lines(workdir, kind):
    found = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["kind"] == kind]


def test_the_workdir_holds_what_is_promised(straight, experiment):
    result, workdir = straight
    document = json.loads((workdir / "alignment.json").read_text())
    assert document["schema"] == 2 and document["rows"] == result.rows
    by_pair = {}
    for row in result.rows:
        by_pair.setdefault((row["x"], row["y"]), set()).add(row["row"])
    cross = {
        "trained", "orthogonal", "actions", "untrained", "untrained_hidden", "pixel_pca",
        "pixel_pca_wide", "random_projection", "all_pixels", "mismatched",
    }  # fmt: skip
    assert by_pair == {
        ("agent_0", "agent_1"): cross,
        ("agent_1", "agent_2"): cross,
        ("agent_0", "agent_2"): {"same_camera"},
    }
    for k in range(3):
        with np.load(workdir / "latents" / f"agent_{k}.npz") as saved:
            np.testing.assert_array_equal(saved["latents"], result.latents[k])
            np.testing.assert_array_equal(saved["states"], result.dataset.states)
            assert saved["states"].dtype == np.float32 and saved["latents"].shape == (40, 3)
            assert tuple(saved["state_names"]) == ("x", "y", "yaw")
            np.testing.assert_array_equal(saved["split_state"], result.dataset.split_state)
    saved_maps = {path.name for path in (workdir / "maps").iterdir()}
    assert saved_maps == {"agent_0_agent_1.npz", "agent_1_agent_2.npz"}  # 0 and 2 share a camera
    train, evals = lines(workdir, "train"), lines(workdir, "eval")
    assert {"agent_0/rho_hat", "agent_1/lambda", "agent_2/alignment"} <= train[0].keys()
    (row,) = [r for r in result.rows if (r["row"], r["y"]) == ("orthogonal", "agent_2")]
    assert evals[-1]["agent_2/state_r2"] == pytest.approx(row["metrics"]["state_r2"])
    text = result.report.read_text()
    assert 'class="missing"' not in text.replace('"missing">This installation', "")
    assert "data:image/gif;base64," in text and "One agent&#x27;s readout" in text


def test_agents_moved_and_are_three(straight):
    result, _ = straight
    assert np.abs(result.latents[0] - result.latents[2]).max() > 1e-2  # one camera, two seeds
    assert np.abs(result.latents - result.untrained.own_init).max() > 1e-3


def test_saved_encoders_and_walks_make_the_map_from_actions(straight, experiment):
    """Each agent's walk is encoded by its own encoder, with its own pixel statistics."""
    result, workdir = straight
    encoders, parts = sj.load(workdir), build.build(experiment)
    feed = build.open_feed(experiment, result.dataset, parts, workdir, workdir)
    train, test = splits(result.dataset)[0].train, splits(result.dataset)[0].test
    walks, means = [], []
    for k, camera in enumerate(experiment.agents.cameras):
        latents = encoders.encode(k, result.dataset.images[camera])
        np.testing.assert_allclose(latents, result.latents[k], atol=1e-4)
        walks.append(encoders.encode(k, feed.walks[k]))
        means.append(result.latents[k][train].mean(0))
    for i, j in ((0, 1), (1, 2)):
        found = fit_by_actions(
            walks[i], feed.actions[i], walks[j], feed.actions[j], x_mean=means[i], y_mean=means[j]
        )
        (row,) = [
            r for r in result.rows
            if (r["row"], r["x"], r["y"]) == ("actions", f"agent_{i}", f"agent_{j}")
        ]  # fmt: skip
        own = response(walks[j], feed.actions[j], result.latents[j].mean(0))[0]
        (trained, *_) = [
            r["metrics"] for r in result.rows
            if (r["row"], r["x"], r["y"]) == ("trained", f"agent_{i}", f"agent_{j}")
        ]  # fmt: skip
        assert trained["rho_recovered"] == pytest.approx(np.trace(own) / 3, abs=1e-3)
        steps = np.square(np.diff(walks[j], axis=0)).sum(1).mean()
        covariance = np.cov(result.latents[j].T)
        excess = max(steps - 0.2 * np.trace(covariance), 0.0) / 0.18
        assert trained["bound_nonlinearity"] == pytest.approx(excess, rel=1e-3, abs=1e-4)
        expected = alignment.r2(found, result.latents[i][test], result.latents[j][test])
        assert row["metrics"]["r2"] == pytest.approx(expected, abs=1e-3)


@pytest.mark.nightly
def test_going_on_after_a_kill_is_the_same_run_bit_for_bit(straight, experiment, monkeypatch):
    """The state of step 2 is all that a killed run leaves."""
    result, workdir = straight
    monkeypatch.setattr(run_page, "write_run_report", lambda workdir, *_: workdir / "r.html")
    other = workdir.parent / "killed"
    other.mkdir()
    for name in ("config.json", "metrics.jsonl"):
        shutil.copy(workdir / name, other / name)
    shutil.copytree(workdir / "checkpoints" / "2", other / "checkpoints" / "2")
    resumed = loop.fit(experiment, other)
    chex.assert_trees_all_equal(jax.device_get(resumed.state), jax.device_get(result.state))
    np.testing.assert_array_equal(resumed.latents, result.latents)
    assert resumed.rows == result.rows
    for kind in ("train", "eval"):
        ours, theirs = lines(other, kind), lines(workdir, kind)
        for line in (*ours, *theirs):
            del line["time"]
            for name in hardware.SPEEDS:
                line.pop(name, None)
        assert ours == theirs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latents": ("x", "y", "roll")}, "config.data.latents='roll' is not one of"),
        ({"rho": (1.5,)}, r"config.data.rho=1.5 must be in \(0.0, 1.0\)"),
        ({"image_size": 24}, "config.objective.encoder.image_size=16"),
    ],
)
def test_fields_are_named_by_their_path(change, message):
    config = smoke.shrink(motion_lejepa.get_config())
    with config.data.unlocked():
        config.data.update(change)
    with pytest.raises(InputError, match=message):
        config_lib.from_config_dict(config)
