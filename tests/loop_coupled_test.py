"""Coupled runs in a folder: a teacher that an earlier run trained, two cameras, what is refused."""

import dataclasses
import json
import shutil

import chex
import jax
import numpy as np
import pytest

import socialjepa_jax as sj
from configs import motion_lejepa, motion_migration, motion_mutual, smoke, toys_ijepa
from socialjepa_jax import build, loop
from socialjepa_jax import config as config_lib
from socialjepa_jax.config import Agents
from socialjepa_jax.data.toys import moving
from socialjepa_jax.errors import InputError
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.objectives.coupled import Classes, Link, Migration, Taught


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    """No more images are rendered at once than there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moving, "_BLOCK", 64)
        yield


def small(module, **changes):
    config = smoke.shrink(module.get_config(), steps=4)
    config.run.eval_every = config.run.save_every = config.run.steps_per_call = 2
    config.run.log_every = 2
    return dataclasses.replace(config_lib.from_config_dict(config), **changes)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """The workdir of a run with one agent on each camera."""
    workdir = tmp_path_factory.mktemp("runs") / "teacher"
    loop.fit(small(motion_lejepa, agents=Agents((0, 1), (0, 1))), workdir)
    return workdir


def taught_by(workdir, **changes):
    experiment = small(motion_migration)
    fields = {"teacher": str(workdir), "link": Link(memory=64, every=2), **changes}
    return dataclasses.replace(
        experiment, objective=dataclasses.replace(experiment.objective, **fields)
    )


@pytest.fixture(scope="module")
def untrained():
    """A teacher as `trained.load` would return it, without its run."""
    experiment = small(motion_lejepa, agents=Agents((0, 1), (0, 1)))
    state = jax.device_get(build.build(experiment).fresh_state())
    ones = np.ones((2, 3), np.float32)
    return Encoders(experiment, state.params, state.aux, 0.5 * ones, 0.2 * ones)


@pytest.fixture(scope="module")
def student(teacher, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs") / "student"
    return loop.fit(taught_by(teacher), workdir), workdir


@pytest.mark.nightly
def test_a_student_is_a_run_like_others(student, teacher):
    result, workdir = student
    assert result.latents.shape == (2, 40, 3)
    loaded = sj.load(workdir)
    images = np.asarray(result.dataset.images[1])
    np.testing.assert_allclose(loaded.encode(0, images), result.latents[0], atol=1e-5)
    assert (workdir / "report.html").exists()
    assert result.state.aux["link"]["count"].min() > 0


def test_the_teacher_is_no_part_of_a_checkpoint(untrained):
    parts = build.build(taught_by("runs/teacher"), teacher=untrained)
    assert isinstance(parts.trainer.objective, Taught)
    state = jax.tree_util.tree_leaves_with_path(parts.abstract_state)
    assert not [name for name, _ in state if "teacher" in str(name)]
    constants = parts.hparams["teacher"]["params"]
    for got, theirs in zip(jax.tree.leaves(constants), jax.tree.leaves(untrained.params)):
        np.testing.assert_array_equal(got, np.asarray(theirs)[[0, 0]])


@pytest.mark.nightly
def test_resuming_is_the_same_run(student, teacher, tmp_path):
    _, workdir = student
    again = tmp_path / "again"
    shutil.copytree(workdir, again)
    shutil.rmtree(again / "checkpoints" / "4")
    resumed = loop.fit(taught_by(teacher), again)
    chex.assert_trees_all_equal(resumed.state.params, student[0].state.params)
    chex.assert_trees_all_equal(resumed.state.aux, student[0].state.aux)


@pytest.mark.nightly
def test_a_run_makes_labels_and_heads_of_its_own_data(tmp_path):
    base = small(toys_ijepa, agents=Agents((0, 1), (0, 1)))
    pulled = dataclasses.replace(base.objective, latent_encoder="context")
    base = dataclasses.replace(base, objective=pulled)
    loop.fit(base, tmp_path / "teacher")
    agents = Agents(cameras=(1, 1), seeds=(10, 11), partners=(0, 0))

    def taught(classes):
        objective = Migration(base.objective, teacher=str(tmp_path / "teacher"),
                              link=Classes(num_classes=classes))  # fmt: skip
        return dataclasses.replace(base, objective=objective, agents=agents)

    loop.fit(taught(5), tmp_path / "student")
    written = (tmp_path / "student" / "metrics.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in written]
    found = [line for line in lines if line["kind"] == "train"][-1]
    assert all(found[f"agent_{k}/link/{name}"] > 0 for k in (0, 1) for name in ("soft", "hard"))
    with pytest.raises(InputError, match="num_classes=3, the training states have 5"):
        loop.fit(taught(3), tmp_path / "other")


def test_both_cameras_see_the_same_states_with_noise_of_their_own(untrained, tmp_path):
    experiment = taught_by("runs/teacher")
    parts = build.build(experiment, teacher=untrained)
    feed = build.open_feed(experiment, experiment.data.load(tmp_path), parts, tmp_path, tmp_path)
    single = dataclasses.replace(experiment, objective=experiment.objective.objective,
                                 agents=Agents((0, 0), experiment.agents.seeds))  # fmt: skip
    alone = build.open_feed(single, experiment.data.load(tmp_path), parts, tmp_path, tmp_path)
    a, b, first = feed.a.at(0).frames, feed.b.at(0).frames, alone.at(0).frames
    assert a.shape == b.shape == first.shape
    # Camera 0 sees the students' states, in other light than a run of its own would.
    apart = np.abs(np.asarray(b, float) - np.asarray(first, float))
    assert apart.max() > 0
    calm = np.asarray(b, float).mean((2, 3, 4)) / np.asarray(first, float).mean((2, 3, 4))
    ratio = np.asarray(b, float) / np.maximum(np.asarray(first, float), 1)
    assert ratio.std() < 0.5 and calm.std() > 0.05


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ((0, 7), r"objective.teachers=\(0, 7\) must name one of the 2 agents"),
        ((0,), r"for each of 2 students"),
    ],
)
def test_agents_that_are_no_teachers_are_named(untrained, chosen, message):
    with pytest.raises(InputError, match=message):
        build.build(taught_by("runs/teacher", teachers=chosen), teacher=untrained)


def test_teachers_that_cannot_teach_are_named(untrained, tmp_path):
    experiment = taught_by("runs/teacher")
    config = dataclasses.replace(untrained.config, pretrain_on="all")
    with pytest.raises(InputError, match="trained on the states that the student is tested on"):
        build.build(experiment, teacher=dataclasses.replace(untrained, config=config))
    broken = jax.tree.map(lambda x: np.full_like(x, np.nan), untrained.params)
    with pytest.raises(InputError, match="parameters that are not finite"):
        build.build(experiment, teacher=dataclasses.replace(untrained, params=broken))
    grey = dataclasses.replace(untrained.config.data, channels=1)
    encoder = dataclasses.replace(untrained.config.objective.encoder, channels=1)
    objective = dataclasses.replace(untrained.config.objective, encoder=encoder)
    config = dataclasses.replace(untrained.config, data=grey, objective=objective)
    with pytest.raises(InputError, match=r"saw data.channels=1, the student sees 3"):
        build.build(experiment, teacher=dataclasses.replace(untrained, config=config))
    with pytest.raises(InputError, match=r"needs objective.kind='migration'"):
        build.build(small(motion_lejepa), teacher=untrained)
    with pytest.raises(InputError, match="nowhere"):
        loop.fit(taught_by("nowhere"), tmp_path / "run")


@pytest.mark.parametrize(
    ("module", "agents", "message"),
    [
        (motion_lejepa, Agents((0,), (1,), partners=(1,)), r"partners=\(1,\) must name a second"),
        (motion_mutual, Agents((0,), (1,)), r"partners=\(\) must name a second camera"),
        (motion_mutual, Agents((0,), (1,), (1,)), r"partner_seeds=\(\) must be given"),
        (motion_mutual, Agents((0,), (1,), (5,), (2,)), r"agents.partners=\(5,\): there are 2"),
    ],
)
def test_second_cameras_belong_to_coupled_objectives(module, agents, message):
    with pytest.raises(InputError, match=message):
        small(module, agents=agents)


def test_agents_check_their_partners():
    with pytest.raises(InputError, match=r"partners=\(1, 1\) must be \(\) or one for each of 1"):
        Agents((0,), (1,), (1, 1))
    with pytest.raises(InputError, match=r"partner_seeds=\(1,\) must be distinct"):
        Agents((0,), (1,), (1,), (1,))


@pytest.mark.nightly
def test_mutual_runs_are_runs_like_others(tmp_path):
    result = loop.fit(small(motion_mutual), tmp_path / "mutual")
    assert result.latents.shape == (2, 40, 3)
    assert set(result.state.params) == {"a", "b"}
