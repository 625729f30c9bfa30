"""Builds the wheel, runs its commands outside the source tree and checks its requirements.

The wheel is built from a source distribution of a copy of the tree, so that one build checks both
and no file of an earlier build can slip in.
"""

import ast
import configparser
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("socialjepa_jax", "configs", "experiments")
FEW = ["--permutations=2", "--resamples=40"]
QUICKLY = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true"}  # how programs are compiled by day

# Where the name of a distribution is not that of its module.
MODULES = {
    "absl-py": "absl",
    "orbax-checkpoint": "orbax",
    "Pillow": "PIL",
    "pytest-xdist": "xdist",
    "scikit-learn": "sklearn",
    "tensorflow-datasets": "tensorflow_datasets",
    "umap-learn": "umap",
}
TOOLS = {"mypy", "ruff", "setuptools", "xdist"}  # run by the tests, not imported
UNDECLARED = {"importlib_resources"}  # imported by tensorflow-datasets, which does not say so


def run(*command, folder, **environment):
    """Runs a command that must succeed, away from the source tree; returns its stdout."""
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", **environment}
    command = list(map(str, command))
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def packaged_files(folder):
    """Relative paths of the files of the three packages below a folder."""
    paths = (path for name in PACKAGES for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in paths if path.parent.name != "__pycache__"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Path of the wheel."""
    folder = tmp_path_factory.mktemp("build")
    source = folder / "source"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.cfg"):
        shutil.copy(ROOT / name, source)
    build = "from setuptools import build_meta; build_meta.build_sdist('..')"
    run(sys.executable, "-c", build, folder=source)
    (sdist,) = folder.glob("*.tar.gz")
    pip_wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps"]
    if int(metadata.version("setuptools").partition(".")[0]) >= 71:  # needs no `wheel`
        pip_wheel.append("--no-build-isolation")
    run(*pip_wheel, sdist, folder=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """A folder with the installed wheel alone; what it requires is in the tests' environment."""
    folder = tmp_path_factory.mktemp("install")
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile"]
    run(*pip, f"--target={folder}", wheel, folder=folder)
    return folder


def train(scripts, folder, **environment):
    """Trains the smoke preset to its report."""
    command = [scripts / "socialjepa-train", "--preset=smoke", f"--workdir={folder / 'run'}"]
    run(*command, folder=folder, **environment)
    assert "<html" in (folder / "run" / "report.html").read_text()


def align(scripts, folder, *arguments, **environment):
    """Aligns two small files; returns the report."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 3))
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", x @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(90, 4)))
    command = [scripts / "socialjepa-align", "--x=x.npy", "--y=y.npy", "--out=report"]
    run(*command, *FEW, *arguments, folder=folder, **environment)
    return (folder / "report" / "report.html").read_text()


def test_the_wheel_holds_every_file_of_the_packages(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    inside = {name for name in names if name.partition("/")[0] in PACKAGES}
    assert inside == packaged_files(ROOT)


def test_the_install_and_not_the_source_tree_is_imported(site, tmp_path):
    code = f"import {', '.join(PACKAGES)}; print({', '.join(f'{p}.__file__' for p in PACKAGES)})"
    found = run(sys.executable, "-c", code, folder=tmp_path, PYTHONPATH=str(site)).split()
    assert found == [str(site / name / "__init__.py") for name in PACKAGES]


@pytest.mark.nightly  # by day from the tree, in `train_test`
def test_socialjepa_train_runs_a_preset_to_its_report(site, tmp_path):
    train(site / "bin", tmp_path, PYTHONPATH=str(site), **QUICKLY)


@pytest.mark.nightly
def test_socialjepa_align_writes_its_report(site, tmp_path):
    assert "<html" in align(site / "bin", tmp_path, "--noumap", PYTHONPATH=str(site), **QUICKLY)


@pytest.mark.parametrize(("script", "flag"), [("train", "--workdir"), ("align", "--ids_x")])
def test_the_commands_explain_themselves(script, flag, site, tmp_path):
    command = [site / "bin" / f"socialjepa-{script}", "--help"]
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert flag in done.stdout, done.stderr
    assert "Exit codes:" in done.stdout


def empty_environment(folder, requirement):
    """Installs a requirement in a new environment; returns the folder of its scripts."""
    run(sys.executable, "-m", "venv", "environment", folder=folder)
    scripts = folder / "environment" / "bin"
    run(scripts / "python", "-m", "pip", "install", requirement, folder=folder, PYTHONPATH="")
    return scripts


IMPORT_ALL = """
import importlib, pkgutil, socialjepa_jax
for module in pkgutil.walk_packages(socialjepa_jax.__path__, "socialjepa_jax."):
    importlib.import_module(module.name)
"""


@pytest.mark.nightly
def test_train_is_enough_for_the_whole_package_in_an_empty_environment(wheel, tmp_path):
    scripts = empty_environment(tmp_path, f"{wheel}[train]")
    run(scripts / "python", "-c", IMPORT_ALL, folder=tmp_path, PYTHONPATH="")
    train(scripts, tmp_path, PYTHONPATH="")


@pytest.mark.nightly
def test_the_bare_base_is_enough_to_align_in_an_empty_environment(wheel, tmp_path):
    scripts = empty_environment(tmp_path, wheel)
    assert "pip install umap-learn" in align(scripts, tmp_path, PYTHONPATH="")


@functools.cache
def names_imported(path):
    """Dotted names that a file imports, wherever the statement stands."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def third_party(paths):
    """Top-level modules that files import from neither the standard library nor this project."""
    top = {name.partition(".")[0] for path in paths for name in names_imported(path)}
    return top - set(sys.stdlib_module_names) - {*PACKAGES, "tests"}


def files_behind(module):
    """Files of the package that a module imports, directly or not."""
    found, open_names = set(), [module]
    while open_names:
        parts = open_names.pop().split(".")
        for length in range(2, len(parts) + 1):  # the package itself imports lazily
            path = ROOT.joinpath(*parts[:length])
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if parts[0] == "socialjepa_jax" and file.exists() and file not in found:
                    found.add(file)
                    open_names.extend(names_imported(file))
    return found


def files_of(*folders):
    """Every module below folders of the project."""
    return [path for folder in folders for path in (ROOT / folder).rglob("*.py")]


def declared(*extras):
    """Modules of the distributions that setup.cfg requires: of the base, or of extras."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lists = [config["options.extras_require"][extra] for extra in extras]
    lines = "\n".join(lists or [config["options"]["install_requires"]]).split("\n")
    names = set()
    for name, inner in re.findall(r"^([\w-]+)(?:\[(.*)\])?", "\n".join(lines), re.MULTILINE):
        own = name == "socialjepa_jax"
        names |= declared(*inner.split(",")) if own else {MODULES.get(name, name)}
    return names


def test_the_base_is_what_align_imports():
    assert third_party(files_behind("socialjepa_jax.align")) == declared() | declared("umap")


def test_train_adds_what_the_rest_of_the_package_imports():
    assert declared("train").isdisjoint(declared())
    used = third_party(files_of("socialjepa_jax", "configs"))
    extras = declared("train", "umap", "data", "reacher")
    assert used | UNDECLARED == declared() | extras


def test_one_file_imports_the_simulator():
    rest = set(files_of(*PACKAGES)) - {ROOT / "socialjepa_jax/data/reacher/rendering.py"}
    assert declared("reacher") == {"dm_control", "mujoco"}
    assert declared("reacher").isdisjoint(third_party(rest))


def test_bench_adds_what_experiments_import():
    used = third_party(files_of("experiments"))
    assert used - declared() - declared("train", "umap") == declared("bench")


def test_test_holds_what_tests_import():
    used = third_party(files_of("tests", "experiments"))
    by_hand = {
        "isotrieve",
        "lightly",
        "rebasis",
        "torch",
        "torchvision",
    }  # compared with in benches
    assert used - by_hand <= declared() | declared("test", "reacher")
    tested = declared("train", "umap", "data")
    unused = declared("test") - tested - third_party(files_of("tests"))
    assert unused == TOOLS


def test_onnx_reads_what_the_package_writes():
    assert declared("onnx") <= third_party(files_of("tests"))


def test_data_is_what_the_reader_of_tensorflow_datasets_imports():
    reader = ROOT / "socialjepa_jax" / "data" / "records" / "tfds.py"
    assert third_party([reader]) - declared() == declared("data") - UNDECLARED
    others = third_party(set(files_of(*PACKAGES)) - {reader})
    assert not others & declared("data")


def test_docs_is_what_the_site_is_configured_with():
    assert declared("docs") == {"mkdocs-material", "mkdocstrings", "ruff"}
    text = (ROOT / "mkdocs.yml").read_text()
    assert re.search(r"^  name: material$", text, re.M) and "  - mkdocstrings:" in text


def test_accelerators_are_builds_of_jax():
    assert declared("cuda") | declared("tpu") == {"jax"}


def test_compilers_for_absent_accelerators_are_those_that_the_command_names():
    assert declared("aot-tpu") == {"jax"}
    assert declared("aot-cuda") == {"jax-cuda12-pjrt", "jax-cuda12-plugin"}
