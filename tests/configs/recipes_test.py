"""Recipes of the papers: what they say of themselves, and that nothing but sizes is chosen."""

import dataclasses
import importlib
import pathlib
import re

import pytest

from configs import recipes
from socialjepa_jax.config import from_config_dict
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.performance import flops

NAMES = sorted({p.stem for p in pathlib.Path(recipes.__file__).parent.glob("*.py")} - {"__init__"})
MODULES = {name: importlib.import_module(f"configs.recipes.{name}") for name in NAMES}
COST = re.compile(
    r"^Cost: ([\d.]+) EFLOP: ([\d.]+) GFLOP an image, ([\d,]+) steps of ([\d,]+)\.", re.M
)
BY_DAY = "simclr"  # counted by day
COUNTED = [pytest.param(n, marks=() if n == BY_DAY else pytest.mark.nightly) for n in NAMES]


def number(text):
    return int(text.replace(",", ""))


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_the_objective_s_defaults_and_its_published_optimiser(name):
    module = MODULES[name]
    heads = re.findall(r"^\w+:", module.__doc__, re.MULTILINE)
    assert heads == ["Paper:", "Command:", "Cost:", "Expected:"]
    assert f"--config=configs/recipes/{name}.py" in module.__doc__
    experiment = from_config_dict(module.get_config())
    objective = experiment.objective
    assert objective.kind == name
    default = OBJECTIVES[name](encoder=objective.encoder, latent=objective.latent)
    assert objective == default
    assert experiment.optim == OBJECTIVES[name].optimizer(experiment.run.batch_size)
    epochs = number(re.search(r"Returns ([\d,]+) epochs", module.get_config.__doc__)[1])
    seen = experiment.run.steps * experiment.run.batch_size
    assert 0 <= epochs - seen / recipes.IMAGES < 0.2


@pytest.mark.parametrize("name", COUNTED)
def test_the_stated_cost_is_that_of_the_model(name):
    total, image, steps, batch = COST.search(MODULES[name].__doc__).groups()
    experiment = from_config_dict(MODULES[name].get_config())
    assert (number(steps), number(batch)) == (experiment.run.steps, experiment.run.batch_size)
    each = flops.step(experiment.objective, 1)
    assert float(image) == pytest.approx(each / 1e9, abs=0.005)
    assert float(total) == pytest.approx(each * number(steps) * number(batch) / 1e18, abs=0.005)


def test_sizes_are_those_of_the_papers():
    encoders = {n: from_config_dict(m.get_config()).objective.encoder for n, m in MODULES.items()}
    resnets = {name for name, encoder in encoders.items() if encoder.kind == "resnet"}
    assert resnets == {"simclr", "barlow", "swav"}
    assert all(encoders[name].depth == 50 for name in resnets)
    widths = {name: e.width for name, e in encoders.items() if name not in resnets}
    assert widths == {"moco": 384, "dino": 384, "ibot": 384, "dinov2": 1024}
    assert all(dataclasses.asdict(e)["image_size"] == 224 for e in encoders.values())
