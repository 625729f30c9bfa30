"""Pages of the site: all are listed, their code runs, their commands and settings exist."""

import ast
import configparser
import functools
import operator
import pathlib
import re
import sys
import types

import jax
import numpy as np
import pytest

import socialjepa_jax
from configs import smoke
from experiments import reproduce
from socialjepa_jax import config, sigreg
from socialjepa_jax.running.presets import PRESETS
from socialjepa_jax.sharding import Reduce

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(DOCS)): path.read_text() for path in DOCS.rglob("*.md")}
GUIDES = [name for name in PAGES if name.startswith("guides/") or name == "index.md"]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```\n(.*?)^```|^((?:    .*\n)+)|`([^`\n]+)`", re.MULTILINE | re.DOTALL)
SOURCES = [
    p.read_text() for f in ("socialjepa_jax", "experiments") for p in (ROOT / f).rglob("*.py")
]
# Flags, some of which are defined by partials of absl's functions.
DEFINED = r'(?:DEFINE_\w+|texts?|integer|real|boolean|choice)\(\s*"(\w+)"'
FLAGS = {n for text in SOURCES for n in re.findall(DEFINED, text)}
FIELDS = {n for text in SOURCES for n in re.findall(r"^    (\w+): ", text, re.MULTILINE)}
SAMPLES = sorted((DOCS / "samples").glob("*.html"))


def said(name):
    """What a page sets as code: blocks and spans, with continued lines in one."""
    blocks = ["".join(match.groups("")) for match in BLOCK.finditer(PAGES[name])]
    return "\n".join(blocks).replace("\\\n", " ")


@functools.cache  # an objective registers once
def module_of(page):
    """The Python code of a page, as a module."""
    name = f"code_of_{pathlib.Path(page).stem}"
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(CODE.findall(PAGES[page])[0], page, "exec"), module.__dict__)
    return module


def test_every_page_is_listed_once():
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r": (\S+\.md)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(PAGES)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_page_is_one_small_file_that_says_nothing_of_its_machine(path):
    text = path.read_text("utf-8")
    assert path.stat().st_size < 450_000
    prose = re.sub(r'"data:image/[^"]*"', '"data:"', text)
    sources = re.findall(r'(?:src|srcset|href)="([^"]*)"', prose)
    assert set(sources) - {"data:"} <= {f"#{name}" for name in re.findall(r' id="([^"]*)"', prose)}
    assert "http" not in prose and "@import" not in prose and "<script" not in prose
    assert not re.search(r"/(tmp|home|root|work|usr|opt|var|Users)\b", prose)


def test_the_start_page_has_the_commands_of_the_sample_pages():
    text = PAGES["index.md"]
    assert [path.name for path in SAMPLES] == ["alignment.html", "motion.html"]
    assert all(f"](samples/{path.name})" in text for path in SAMPLES)
    files = set(re.findall(r"=(\w+)\.npy", text))
    with np.load(ROOT / "tests" / "golden" / "words.npz") as words:
        assert len(files) == 6 and files <= set(words)


def test_the_api_pages_name_what_exists():
    for name, text in PAGES.items():
        for target in re.findall(r"^::: (\S+)", text, re.MULTILINE):
            assert name.startswith("api/") and target.startswith("socialjepa_jax.")
            module, _, attribute = target.rpartition(".")
            assert hasattr(__import__(module, fromlist=[attribute]), attribute), target


def test_the_definitions_are_those_of_the_code():
    """The block compares metrics with NumPy and SciPy, and fails where they differ."""
    found = module_of("concepts.md")
    assert set(found.mine) == {"r2", "dsc", "nos@5", "kappa", "orthogonality"}
    levels = f"{sigreg.OFFICIAL.null_level:.4f} on", f"{sigreg.PAPER.null_level:.4f} on"
    assert all(level in PAGES["concepts.md"] for level in levels)


def test_every_metric_of_an_evaluation_has_its_definition():
    text = PAGES["concepts.md"]
    found = module_of("concepts.md").found
    for name in found:
        base = re.sub(r"@\d+", "@k", name)
        assert base in {"n_train", "n_test", "mse_raw", "nos_expected@k"} or f"`{base}`" in text


def test_the_objective_of_the_guide_is_one_loss_on_any_number_of_shards():
    slow = module_of("guides/objective.md").Slow()
    params, aux = slow.init(jax.random.key(0))
    batch = {
        name: np.random.default_rng(k).random((8, 32, 32, 3))
        for k, name in enumerate(("image", "next"))
    }

    def loss(batch, reduce):
        return slow.loss(params, aux, batch, None, {}, reduce)[0]

    halves = {name: images.reshape(2, 4, 32, 32, 3) for name, images in batch.items()}
    shards = jax.jit(jax.vmap(lambda b: loss(b, Reduce("data")), axis_name="data"))(halves)
    np.testing.assert_allclose(shards, [loss(batch, Reduce())] * 2, rtol=1e-5)
    local = jax.jit(jax.vmap(lambda b: loss(b, Reduce())))(halves)
    assert abs(local.mean() - shards[0]) > 0.01 * shards[0]  # means of losses are another loss
    assert slow.encode(params, aux, batch["image"])["latent"].shape == (8, 3)


def test_the_guide_s_file_is_a_configuration():
    module = module_of("guides/objective.md")
    found = config.from_config_dict(module.get_config())
    assert type(found.objective) is module.Slow and found.data.image_size == 32


@pytest.mark.nightly
def test_the_objective_of_the_guide_trains(tmp_path):
    module = module_of("guides/objective.md")
    settings = smoke.shrink(module.motion_lejepa.get_config(), steps=2)
    side = settings.data.image_size
    settings.objective = {"kind": "slow", "pixels": side * side * 3}
    result = module.sj.train(config.from_config_dict(settings), str(tmp_path / "run"))
    assert result.latents.shape[-1] == 3 and result.report.exists()


@pytest.mark.parametrize("name", GUIDES)
def test_commands_flags_and_settings_of_a_guide_exist(name):
    text = said(name)
    for module in re.findall(r"python -m ([\w.]+)", text):
        assert (ROOT / (module.replace(".", "/") + ".py")).exists(), module
    flags = re.findall(r"(?<![\w-])--(?!config\.)([A-Za-z_]\w*)", text)
    assert not {flag for flag in flags if flag not in {*FLAGS, "config", "preset"}}
    presets = re.findall(r"--preset=([a-z]\w*)", text)
    assert set(presets) <= set(PRESETS)
    settings = re.findall(r"\bconfig\.((?:[a-z_]+\.)*[a-z_]+)(?!\w*\.py)(?==|`|\s|,|$)", text)
    assert not {s for s in settings if s != "json" and not {*s.split(".")} <= {*FIELDS}}
    experiments = re.findall(r"--only=([a-z_]+)", text)
    assert set(experiments) <= set(reproduce.NAMES)


def test_python_code_of_every_page_can_be_parsed_and_names_what_exists():
    blocks = [code for text in PAGES.values() for code in CODE.findall(text)]
    assert len(blocks) >= 5
    for code in blocks:
        ast.parse(code)
        for name in re.findall(r"\bsj\.([\w.]*\w)", code):
            operator.attrgetter(name)(socialjepa_jax)


def test_extras_that_pages_name_exist():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for text in PAGES.values():
        for extras in re.findall(r"pip install [^\n]*\.\[([\w,-]+)\]", text):
            assert set(extras.split(",")) <= set(setup["options.extras_require"])
