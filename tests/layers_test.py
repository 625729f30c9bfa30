"""The layers of the package: a room imports itself and rooms that stand before it."""

import ast
import pathlib

import pytest

import socialjepa_jax

PACKAGE = pathlib.Path(socialjepa_jax.__file__).parent
LAYERS = """
    errors artefacts npz keys records sharding
    sigreg alignment dynamics data.augment models data optim objectives agents config
    identifiability performance collaboration evaluation report
    build labels running loop experimental apply train align_flags align manifest
""".split()
ALONE = {
    "sigreg": {"errors"},
    "alignment": {"errors", "npz"},
    "alignment.study": {"errors", "npz", "records"},
}


def modules():
    """Every module of the package: its dotted name below the package, and its path."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        yield name.removesuffix(".__init__"), path


def room_of(name):
    """The room of a module; augmentation is a room of its own inside data."""
    return "data.augment" if name.startswith("data.augment") else name.partition(".")[0]


def imports(path):
    """Dotted names below the package that a file imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("socialjepa_jax"):
            below = node.module.partition(".")[2]
            for alias in node.names:
                yield f"{below}.{alias.name}" if below else alias.name
        elif isinstance(node, ast.Import):
            yield from (a.name[15:] for a in node.names if a.name.startswith("socialjepa_jax."))


@pytest.mark.parametrize(("name", "path"), [m for m in modules() if m[0] != "__init__"])
def test_a_module_imports_only_rooms_below_its_own(name, path):
    room = room_of(name)
    below = {*LAYERS[: LAYERS.index(room)], room}
    assert not {i for i in imports(path) if room_of(i) not in below}


@pytest.mark.parametrize("room", ALONE)
def test_sigreg_and_alignment_can_be_used_by_themselves(room):
    for name, path in modules():
        if name == room or name.startswith(f"{room}."):
            inner = room.partition(".")[0]
            allowed = {*ALONE[room], inner}
            if name.startswith("alignment.study"):
                allowed = {*ALONE["alignment.study"], inner}
            assert {room_of(i) for i in imports(path)} <= allowed, name


def test_every_folder_of_modules_is_a_package_that_a_wheel_would_hold():
    folders = {path.parent for _, path in modules()}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


def test_no_folder_is_crowded():
    for folder in {path.parent for _, path in modules()}:
        assert len(list(folder.glob("*.py"))) <= 16, folder


# The experiment is opened where a run is put together, and by the entry points of evaluation.
OPENS_THE_EXPERIMENT = {
    "config", "build", "labels", "loop", "experimental.exact", "evaluation.metrics",
    "evaluation.table", "evaluation.moving",
}  # fmt: skip


def test_the_experiment_is_opened_in_one_place():
    for name, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.args, *node.args.kwonlyargs]
                hints = {ast.unparse(a.annotation) for a in arguments if a.annotation}
                assert name in OPENS_THE_EXPERIMENT or not hints & {"Experiment"}, (name, node.name)
    public = ast.parse((PACKAGE / "evaluation" / "table.py").read_text()).body
    opened = [
        node.name
        for node in public
        if isinstance(node, ast.FunctionDef) and "Experiment" in ast.unparse(node.args)
    ]
    assert opened == ["alignment_rows"]
