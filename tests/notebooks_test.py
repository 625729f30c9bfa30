"""Notebooks: they hold no outputs, install the package first, and their cells run in order."""

import ast
import importlib.util
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
SMALL = {  # what the cell of parameters is replaced by
    "quickstart": "STEPS, POOL, STATES, WALK, GOALS = 50, 256, 300, 300, 4",
    "two_files_of_embeddings": "ROWS = 300",
    "write_your_own_objective": "STEPS, POOL, STATES, WALK = 2, 256, 300, 20",
    "identifiability_in_ten_minutes": "STEPS, BATCH, SAMPLES = 2, 16, 40",
}


TRAINED = "STEPS, POOL, STATES, WALK, GOALS = 1000, 12000, 1000, 3000, 50"  # of the quickstart


def cells(path, kind="code"):
    """The cells of one kind."""
    return [c for c in json.loads(path.read_text("utf-8"))["cells"] if c["cell_type"] == kind]


def is_parameters(cell):
    return "parameters" in cell["metadata"].get("tags", ())


def script(path, parameters=None):
    """All code of a notebook in order, as one program."""
    sources = [
        parameters if parameters and is_parameters(cell) else "".join(cell["source"])
        for cell in cells(path)
    ]
    return "\n\n".join(sources)


def run(path, folder, parameters):
    """Runs a notebook without a display; returns what it prints."""
    program = folder / f"{path.stem}.py"
    program.write_text(script(path, parameters))
    threads = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **threads, "MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, program], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_four():
    assert [path.stem for path in PATHS] == sorted(SMALL)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_clean(path):
    text = json.loads(path.read_text("utf-8"))
    assert (text["nbformat"], text["nbformat_minor"]) == (4, 5)
    assert all(not c["outputs"] and c["execution_count"] is None for c in cells(path))
    assert text["cells"][0]["cell_type"] == "markdown"
    first = "".join(text["cells"][0]["source"])
    assert "In Colab: File > Upload notebook" in first and "`SOURCE`" in first
    assert sum(map(is_parameters, cells(path))) == 1


def test_no_notebook_leads_to_an_address_that_does_not_exist():
    """The repository has no public address: papers alone are linked."""
    text = "".join(path.read_text("utf-8") for path in PATHS)
    links = set(re.findall(r"https?://[^\s)\"\\]+", text))
    assert links == {"https://...", "https://arxiv.org/abs/2605.26379"}


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("..", "..[train]"),
        ("socialjepa_jax-0.2.0-py3-none-any.whl", "socialjepa_jax-0.2.0-py3-none-any.whl[train]"),
        ("git+https://host/fork.git", "socialjepa_jax[train] @ git+https://host/fork.git"),
    ],
)
def test_the_first_cell_installs_from_its_source_where_the_package_is_missing(
    monkeypatch, source, package
):
    (install,) = {"".join(cells(path)[0]["source"]) for path in PATHS}  # the same in all
    assert 'SOURCE = ".."' in install
    code, commands = install.replace('SOURCE = ".."', f'SOURCE = "{source}"'), []
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    exec(code, {})
    assert not commands
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    exec(code, {})
    assert commands == [[sys.executable, "-m", "pip", "install", "--quiet", package]]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_small_parameters_are_those_of_the_notebook(path):
    (cell,) = filter(is_parameters, cells(path))
    names = [
        {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        for code in ("".join(cell["source"]), SMALL[path.stem])
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_named_notebooks_files_and_presets_exist(path):
    prose = "\n".join("".join(cell["source"]) for cell in cells(path, "markdown"))
    assert all((FOLDER / name).exists() for name in re.findall(r"[\w]+\.ipynb", prose))
    assert all((ROOT / name).exists() for name in re.findall(r"\b[A-Z]+\.md\b", prose))
    for module in re.findall(r"python -m ([\w.]+)", prose):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    printed = run(path, tmp_path, SMALL[path.stem])
    numbers = [float(n) for n in re.findall(r"(?<![\w.])-?\d+\.\d+|\bnan\b", printed)]
    assert len(numbers) >= 3 and all(map(math.isfinite, numbers))


@pytest.mark.nightly
def test_the_agents_of_the_quickstart_are_trained(tmp_path):
    printed = run(FOLDER / "quickstart.ipynb", tmp_path, TRAINED)
    assert float(re.search(r"R2 of W +([\d.-]+)", printed)[1]) > 0.9
    assert float(re.search(r"pairs shuffled +([\d.-]+)", printed)[1]) < 0.2
    reached = dict(re.findall(r"^(\w.*?) +reached ([\d.]+)", printed, re.MULTILINE))
    assert float(reached["goal by W"]) > float(reached["goal without W"]) + 0.2
