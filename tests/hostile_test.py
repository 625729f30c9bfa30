"""No file can run code: nothing is unpickled anywhere, and files that lie are refused."""

import pathlib
import re

from experiments.reliability import hostile
from experiments.reliability.fixture import Fixture

ROOT = pathlib.Path(__file__).parents[1]
# What loads pickles or runs text. A config file is code, and says so; ml_collections runs it.
LOADERS = re.compile(
    r"\bpickle\.(load|loads|Unpickler)\b|\b(cloudpickle|dill|joblib|shelve|marshal)\b"
    r"|torch\.load|yaml\.(load|unsafe_load|full_load)|(?<![.\w])(eval|exec)\("
    r"|np\.load\((?![^)]*allow_pickle=False)[^)]*allow_pickle"
)


def _sources(*folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def test_nothing_unpickles_or_evaluates():
    paths = _sources("socialjepa_jax", "configs", "experiments")
    assert len(paths) > 50
    found = [f"{path.name}: {m[0]}" for path in paths for m in LOADERS.finditer(path.read_text())]
    assert found == []


def test_the_package_does_not_even_import_pickle():
    for path in _sources("socialjepa_jax", "configs"):
        assert not re.search(r"^\s*(import|from)\s+pickle\b", path.read_text(), re.M), path
        for line in re.findall(r"allow_pickle=\w+", path.read_text()):
            assert line == "allow_pickle=False", path


def test_the_search_finds_what_it_looks_for():
    for text in ("pickle.loads(x)", "torch.load(p)", "yaml.load(s)", " eval(x)", "import dill",
                 "np.load(p, allow_pickle=True)"):  # fmt: skip
        assert LOADERS.search(text), text
    for text in ("pickle.dumps(x)", "model.eval()", "np.load(p, allow_pickle=False)"):
        assert not LOADERS.search(text), text


def test_hostile_files_are_refused_and_not_executed(tmp_path):
    found = hostile.hostile_files(Fixture(tmp_path))
    assert found["files"] >= 60 and found["accepted"] == [] and not found["executed"]
    assert found.passed


def test_the_payload_would_run(tmp_path):
    """Otherwise the test above could not fail."""
    import pickle

    marker = tmp_path / "executed"
    pickle.loads(pickle.dumps(hostile.Payload(str(marker))))
    assert marker.exists()
