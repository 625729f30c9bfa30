"""Commands, flags, presets, settings and files that README.md names exist."""

import ast
import functools
import operator
import pathlib
import re
import runpy
import shlex

import pytest

import socialjepa_jax
from experiments import reproduce
from socialjepa_jax.running.presets import PRESETS
from tests.commands import Command

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```.*?\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPANS = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", BLOCK.sub("", TEXT))]
LINES = "\n".join(BLOCK.findall(TEXT)).replace("\\\n", " ").splitlines()
CODE = [*LINES, *SPANS]
SOURCES = ("configs", "experiments", "socialjepa_jax", "tests")
PACKAGE = ROOT / "socialjepa_jax"
WRITTEN = {"apply_map.py"}  # by a command
SCRIPTS = {"socialjepa-train": "socialjepa_jax.train", "socialjepa-align": "socialjepa_jax.align"}


def commands():
    """The command lines of the project as (module, arguments)."""
    for line in CODE:
        for part in line.partition(" #")[0].split("&&"):
            words = shlex.split(part) if re.match(r"\s*(python -m|socialjepa-)", part) else []
            if words[:1] == ["python"]:
                yield words[2], words[3:]
            elif words[1:2] == ["apply"]:
                yield f"{SCRIPTS[words[0]]} apply", words[2:]
            elif words:
                yield SCRIPTS[words[0]], words[1:]


MODULES = sorted({module for module, _ in commands()} | set(SCRIPTS.values()))


@pytest.fixture(scope="module")
def helps():
    """Exit code, stdout and stderr of every command with `--helpfull`, by module."""
    running = {name: Command(*name.split(), "--helpfull", folder=ROOT) for name in MODULES}
    return {module: command.end() for module, command in running.items()}


def flags_in(text):
    """The flags that a help text lists."""
    return set(re.findall(r"^  (?:-.,)?--(?:\[no\])?(\w+):", text, re.MULTILINE))


def unknown(words, known):
    """Flags among the words of a command line that are not known; overrides are no flags."""
    names = re.findall(r"(?:^|(?<=[\s(]))--([A-Za-z_]\w*)(?![\w.])", " ".join(words))
    return {n for n in names if n not in known and n.removeprefix("no") not in known}


def test_it_and_the_build_notes_can_be_read_at_once():
    notes = (ROOT / "BUILD_NOTES.md").read_text()
    assert len(TEXT.splitlines()) < 200 and len(notes.splitlines()) < 200


def test_there_are_commands():
    assert {"socialjepa_jax.train", "socialjepa_jax.align"} <= {module for module, _ in commands()}


@pytest.mark.parametrize("module", MODULES)
def test_a_command_knows_its_flags(module, helps):
    code, stdout, stderr = helps[module]
    known = flags_in(stdout)
    assert code == 1 and "help" in known, stderr  # absl's code for help
    used = [word for name, arguments in commands() if name == module for word in arguments]
    assert not unknown(used, known)


def test_a_flag_that_the_text_names_belongs_to_a_command(helps):
    assert not unknown(SPANS, flags_in("".join(stdout for _, stdout, _ in helps.values())))


def test_named_presets_exist():
    guide = (ROOT / "docs" / "guides" / "train.md").read_text()
    table = re.search(r"^\| preset .*?\n\n", guide, re.MULTILINE | re.DOTALL)
    first_cells = re.findall(r"^\|[^|]*", table[0], re.MULTILINE)
    names = {*re.findall(r"`(\w+)`", "".join(first_cells))}
    assert names | {*re.findall(r"--preset=([a-z]\w*)", TEXT + guide)} == set(PRESETS)


def test_named_experiments_exist():
    names = {name for span in re.findall(r"--only=([\w,]+)", TEXT) for name in span.split(",")}
    assert names - {"", "NAME"} <= set(reproduce.NAMES)


def test_named_files_exist():
    sources = [path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")]
    known = "".join(f"/{path.relative_to(ROOT)}\n" for path in sources)
    links = re.findall(r"\]\((?!http|#)([^)#]+)", TEXT)
    assert links
    assert not [link for link in links if not (ROOT / link).exists()]
    files = {name for span in SPANS for name in re.findall(r"[\w/]+\.py\b", span)}
    assert not {name for name in files - WRITTEN - {"FILE.py"} if f"/{name}\n" not in known}


def test_the_rooms_are_those_of_the_package():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rooms = re.search(r"^socialjepa_jax/\n((?:  .*\n)+)", text, re.MULTILINE)[1]
    names = {name for line in rooms.splitlines() for name in line.split("   ")[0].split()}
    entries = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    entries |= {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"}
    assert {n if n.endswith(("/", ".py")) else f"{n}.py" for n in names} == entries


def test_named_functions_of_the_package_exist():
    for name in set(re.findall(r"\bsj\.([\w.]*\w)", TEXT)):
        operator.attrgetter(name)(socialjepa_jax)


@pytest.mark.parametrize(
    "code", re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
)
def test_python_code_can_be_parsed(code):
    ast.parse(code)


@functools.cache
def configs():
    """The configurations of every preset, of every source that one names."""
    modules = [runpy.run_path(str(path)) for path in PRESETS.values()]
    plain = [module["get_config"]() for module in modules]
    return plain + [m["get_config"](name) for m in modules for name in m.get("SOURCES", ())]


def has(config, path):
    """True if a configuration has a field of this dotted path."""
    for name in path.split("."):
        if not hasattr(config, "keys") or name not in config:
            return False
        config = config[name]
    return True


SETTINGS = {*re.findall(r"\bconfig\.([a-z_.]+[a-z_])", TEXT)} - {"json", "py"}


@pytest.mark.parametrize("path", sorted(SETTINGS))
def test_a_named_setting_is_a_field_of_a_preset(path):
    assert any(has(config, path) for config in configs())
