"""Presets: the configurations that are installed with the package."""

import pathlib

import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.running import presets


def test_every_configuration_is_a_preset():
    folder = pathlib.Path(presets.__file__).parents[2] / "configs"
    files = {path.stem for path in folder.glob("*.py") if "def get_config" in path.read_text()}
    assert set(presets.PRESETS) == files
    assert all(path.is_file() for path in presets.PRESETS.values())


def test_a_preset_is_replaced_by_its_file_and_overrides_are_kept():
    found = presets.expand(["train", "--preset=toys_ijepa", "--config.run.steps=2", "--workdir=w"])
    file = f"--config={presets.PRESETS['toys_ijepa']}"
    assert found == ["train", file, "--config.run.steps=2", "--workdir=w"]
    assert presets.expand(["train", "--config=x.py"]) == ["train", "--config=x.py"]


def test_the_home_folder_of_a_config_file_is_found(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    found = presets.expand(["train", "--config=~/a=b.py", "--workdir=~/w", "--config.x=~"])
    assert found == ["train", "--config=/home/me/a=b.py", "--workdir=~/w", "--config.x=~"]
    assert presets.expand(["--config", "x.py"]) == ["--config", "x.py"]


@pytest.mark.parametrize(
    "argv",
    [
        ["--preset=../toys_ijepa"],
        ["--preset=/etc/passwd"],
        ["--preset=toys_ijepa.py"],
        ["--preset="],
        ["--preset"],
        ["--preset=toys_ijepa", "--preset=toys_lejepa"],
        ["--preset=toys_ijepa", "--config=x.py"],
    ],
)
def test_only_one_known_name_is_a_preset(argv):
    with pytest.raises(InputError, match="preset"):
        presets.expand(argv)
