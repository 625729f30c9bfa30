"""The workdir of a run as trained encoders: damage beside the checkpoints is refused."""

import json
import types

import numpy as np
import pytest

from configs import toys_ijepa
from socialjepa_jax.errors import InputError
from socialjepa_jax.running import trained

MEAN, STD = np.float32([[0.1], [1 / 3]]), np.float32([[0.25], [0.75]])


@pytest.fixture
def workdir(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(toys_ijepa.get_config().to_dict()))
    trained.save_statistics(tmp_path, types.SimpleNamespace(mean=MEAN, std=STD))
    return tmp_path


def test_a_run_without_a_checkpoint_is_said_to_have_none(workdir):
    """Nothing before the checkpoints is wrong, which the tests below rely on."""
    with pytest.raises(InputError, match="holds no checkpoint yet"):
        trained.load(workdir)
    path = workdir / "statistics.json"
    written = json.loads(path.read_text())
    np.testing.assert_array_equal(np.float32(written["mean"]), MEAN)
    del written["sha256"]  # of a run older than the digest
    path.write_text(json.dumps(written))
    with pytest.raises(InputError, match="holds no checkpoint yet"):
        trained.load(workdir)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text[:-20],
        lambda text: text.replace("0.1", "0.3"),
        lambda text: text.replace("mean", "moan"),
        lambda text: f"[{text}]",
        lambda text: "[" * 100_000,
        lambda text: text.replace("0.75", "null"),
    ],
)
def test_damaged_statistics_are_refused(workdir, change):
    path = workdir / "statistics.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=r"statistics\.json: missing or damaged"):
        trained.load(workdir)


@pytest.mark.parametrize("text", ["", "[" * 100_000, "{}", "[1]"])
def test_a_damaged_configuration_is_refused(workdir, text):
    (workdir / "config.json").write_text(text)
    with pytest.raises(InputError, match="is not the workdir of a run"):
        trained.load(workdir)
