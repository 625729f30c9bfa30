"""Verdicts of figures, and the files that they are written to."""

import pytest

from experiments.bench import results
from experiments.bench.results import Result
from socialjepa_jax.errors import InputError


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (Result("x", 0.4, 0.35, stretch=0.47), "met"),
        (Result("x", 0.5, 0.35, stretch=0.47), "stretch"),
        (Result("x", 0.3, 0.35, stretch=0.47), "missed"),
        (Result("x", 1.01, 1.02, at_least=False, stretch=1.005), "met"),
        (Result("x", 1.03, 1.02, at_least=False, stretch=1.005), "missed"),
        (Result("x", float("nan"), 0.35), "missed"),
        (Result("x", 3.0), ""),
    ],
)
def test_verdicts(result, verdict):
    assert result.verdict() == verdict
    assert results.from_row(result.row()).describe() == result.describe()


def test_a_folder_is_no_file(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="must be a file"):
        results.out_file(str(tmp_path))
    assert results.out_file(str(tmp_path / "x.json")) == tmp_path / "x.json"
    assert results.out_file(None) is None
    assert not list(tmp_path.iterdir())

    def denied(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(results.tempfile, "TemporaryFile", denied)
    with pytest.raises(InputError, match=r"x\.json cannot be written: Permission denied"):
        results.out_file(str(tmp_path / "x.json"))


def test_a_refused_file_is_named_with_its_flag(tmp_path):
    missing = tmp_path / "missing" / "rows.json"
    for option in ("--out", "--rows"):
        with pytest.raises(InputError, match=f"^{option}=.*must be a file in a folder that exists"):
            results.out_file(str(missing), option)
