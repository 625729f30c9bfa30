"""The presets of ImageNet: the protocol of Social-JEPA A.3, the sources, and what a run costs."""

import pathlib
import re

import pytest

from configs import imagenet_ijepa, imagenet_lejepa, imagenet_lejepa_resnet50, smoke
from configs.recipes import IMAGES
from experiments.bench import run_cost
from socialjepa_jax import loop
from socialjepa_jax.config import from_config_dict
from socialjepa_jax.data.augment import VIEW_A, VIEW_B, Augment
from socialjepa_jax.errors import InputError
from socialjepa_jax.models.vit import SIZES
from socialjepa_jax.performance import flops
from socialjepa_jax.running import presets
from tests.data.records import record_files

PRESETS = {m.__name__: m for m in (imagenet_ijepa, imagenet_lejepa, imagenet_lejepa_resnet50)}
NODES = run_cost.ONE_H100, run_cost.EIGHT_A100
COST = re.compile(
    r"Cost: ([\d.]+) hours on one H100 and ([\d.]+) on eight A100"
    r"(?: \(ViT-B/16: ([\d.]+) and ([\d.]+)\))?, .*?([\d.]+) GFLOP an image, 2 agents, "
    r"([\d,]+) steps of ([\d,]+).*? take ([\d,]+) images/s"
)


def number(text):
    return float(text.replace(",", ""))


@pytest.mark.parametrize("source", imagenet_ijepa.SOURCES)
@pytest.mark.parametrize("name", PRESETS)
def test_two_agents_see_two_views_of_every_picture(name, source):
    experiment = from_config_dict(PRESETS[name].get_config(source))
    data = experiment.data
    assert data.kind == source and data.num_cameras == 2 and data.image_size == 224
    assert experiment.agents.cameras == (0, 1)
    assert (data.views.a, data.views.b) == (VIEW_A, VIEW_B)
    assert experiment.augment == Augment()  # or the views would not be those of the paper
    assert data.read == "stream"


def test_the_small_protocol_is_the_same_one():
    experiment = from_config_dict(imagenet_ijepa.get_config("small"))
    data = experiment.data
    assert data.views == from_config_dict(imagenet_ijepa.get_config()).data.views and data.views.on
    assert data.image_size == experiment.objective.vit.image_size == 64
    assert experiment.agents.cameras == (0, 1) and experiment.augment == Augment()


def test_a_source_that_is_not_known_is_refused():
    with pytest.raises(InputError, match="source='web' must be one of 'folder', 'tfds', 'shards'"):
        imagenet_ijepa.get_config("web")
    found = presets.expand(["train", "--preset=imagenet_ijepa:tfds"])
    assert found == ["train", f"--config={presets.PRESETS['imagenet_ijepa']}:tfds"]
    assert pathlib.Path(found[1].removeprefix("--config=").removesuffix(":tfds")).is_file()


@pytest.mark.nightly
def test_the_small_protocol_ends_with_a_page_of_both_views(tmp_path):
    for n, (name, blob, label) in enumerate(record_files.pictures(60)):
        path = tmp_path / "data" / record_files.NAMES[label] / f"{n}_{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(blob)
    config = smoke.shrink(imagenet_ijepa.get_config("small"), steps=4)
    config.data.path, config.data.splits.test_instances = str(tmp_path / "data"), 4
    assert config.data.views.on and config.data.image_size == 48
    result = loop.fit(from_config_dict(config), tmp_path / "run")
    page = " ".join(result.report.read_text().split())
    assert "each through an augmentation of its own" in page
    pairs = {(row["x"], row["y"], row["row"]) for row in result.rows}
    names = ("trained", "untrained", "pixel_pca", "mismatched")
    assert {("agent_0", "agent_1", name) for name in names} <= pairs


def test_the_schedule_is_that_of_table_3():
    experiment = from_config_dict(imagenet_ijepa.get_config())
    run, optim = experiment.run, experiment.optim
    assert run.batch_size == 1024 and optim.learning_rate == 1.5e-4
    assert optim.weight_decay == optim.final_weight_decay == 0.05
    assert run.steps * run.batch_size / IMAGES == pytest.approx(300, abs=0.5)
    assert optim.warmup_fraction * 300 == pytest.approx(10)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PRESETS)
def test_the_stated_cost_is_that_of_the_scaling_model(name):
    module = PRESETS[name]
    one, eight, _, _, image, steps, batch, rate = COST.search(
        " ".join(module.__doc__.split())
    ).groups()
    config = module.get_config()
    experiment = from_config_dict(config)
    assert (number(steps), number(batch)) == (experiment.run.steps, experiment.run.batch_size)
    assert number(image) == pytest.approx(flops.step(experiment.objective, 1) / 1e9, abs=0.005)
    for node, said in zip(NODES, (one, eight)):
        assert number(said) == pytest.approx(run_cost.hours(experiment, node), abs=0.051)
    fed = run_cost.images_per_second(experiment.objective, run_cost.ONE_H100.products)
    assert number(rate) == pytest.approx(fed, rel=2e-3)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [imagenet_ijepa.__name__, imagenet_lejepa.__name__])
def test_the_stated_cost_of_the_larger_encoder_is_too(name):
    module = PRESETS[name]
    config = module.get_config()
    one_b, eight_b = COST.search(" ".join(module.__doc__.split())).groups()[2:4]
    encoder = config.objective.vit if "vit" in config.objective else config.objective.encoder
    sizes = {name: int(n) for name, n in re.findall(r"\.(width|heads)=(\d+)", module.__doc__)}
    assert sizes.items() <= SIZES["B"].items() and len(sizes) == 2
    encoder.update(sizes)
    for node, said in zip(NODES, (one_b, eight_b)):
        hours = run_cost.hours(from_config_dict(config), node)
        assert number(said) == pytest.approx(hours, abs=0.051)


@pytest.mark.nightly
def test_hours_are_steps_over_the_rate_of_an_agent_s_chips():
    """One agent after another on one chip; on eight, four chips for each of two agents."""
    experiment = from_config_dict(imagenet_ijepa.get_config())
    images = experiment.run.steps * experiment.run.batch_size
    rate = run_cost.images_per_second(experiment.objective, 790e12)
    alone = 2 * (images / rate + experiment.run.steps * run_cost.STEP) / 3600
    assert run_cost.hours(experiment, run_cost.ONE_H100) == pytest.approx(alone)
    eight = run_cost.hours(experiment, run_cost.Node(8, 790e12))
    floor = (images / (4 * rate) + experiment.run.steps * run_cost.STEP) / 3600
    assert floor < eight < 1.3 * floor
