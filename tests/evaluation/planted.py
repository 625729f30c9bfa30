"""Agents whose latents hold the state of a world in motion as it is planted here."""

import dataclasses

import numpy as np
from scipy.spatial.transform import Rotation

from configs import motion_lejepa
from socialjepa_jax import config as config_lib
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.evaluation.evidence import Encoded, Evidence, Walks
from socialjepa_jax.evaluation.splits import Split

NUM, NAMES, RHO, SHARE, STEPS = 300, ("x", "y", "yaw"), 0.9, 0.3, 400
NOISE = (0.15, 0.2, 0.25, 0.3)
TURNS = [Rotation.random(random_state=k).as_matrix() for k in range(4)]


def world(num_cameras, side=4, num=NUM):
    """Images that show the states linearly, differently to all cameras, under noise."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(num, 3)).astype(np.float32)
    lenses = rng.normal(size=(num_cameras, 3, 3 * side**2))
    shown = 128 + 12 * (states @ lenses) + 12 * rng.normal(size=(num_cameras, num, 3 * side**2))
    images = np.clip(shown, 0, 255).astype(np.uint8)
    images = images.reshape(num_cameras, num, side, side, 3)
    zeros = np.zeros(num, np.int32)
    test = rng.permutation(num) < num // 3
    return ViewDataset(
        name="motion", images=images,
        state_ids=np.arange(num), instance_ids=zeros, labels=zeros, label_names=("world",),
        factors=zeros[:, None], factor_names=("category",), split_state=test.astype(np.int32),
        split_instance=zeros, overlap=0.0, states=states, state_names=NAMES,
    )  # fmt: skip


def code(states, agent, rng):
    """Latents Q z with noise."""
    return states @ TURNS[agent].T + NOISE[agent] * rng.normal(size=states.shape) + agent


def walk(rng):
    states, actions = [rng.normal(size=3)], rng.normal(size=(STEPS, 3))
    rest = rng.normal(size=(STEPS, 3))
    for xi in np.sqrt(SHARE) * actions + np.sqrt(1 - SHARE) * rest:
        states.append(RHO * states[-1] + np.sqrt(1 - RHO**2) * xi)
    return np.array(states), actions


def encoded(cameras, side=4, num=NUM):
    """The agents of a run on these cameras."""
    experiment = config_lib.from_config_dict(motion_lejepa.get_config())
    agents = dataclasses.replace(
        experiment.agents, cameras=cameras, seeds=tuple(range(len(cameras)))
    )
    data = dataclasses.replace(experiment.data, azimuths=(-80.0, 80.0, 0.0)[: max(cameras) + 1])
    experiment = dataclasses.replace(experiment, data=data, agents=agents)
    dataset, rng = world(data.num_cameras, side, num), np.random.default_rng(1)
    count = range(len(cameras))
    latents = np.stack([code(dataset.states, k, rng) for k in count]).astype(np.float32)
    rng = np.random.default_rng(2)
    states, actions = (np.stack(part) for part in zip(*(walk(rng) for _ in count)))
    untrained, hidden = (rng.normal(size=(len(cameras), num, width)) for width in (3, 20))
    walks = np.stack([code(z, k, rng) for k, z in enumerate(states)])
    evidence = Evidence(untrained, hidden, Walks(walks, actions, np.full(3, RHO)))
    return Encoded(experiment, dataset, latents, evidence)


def white(num, columns):
    """Samples whose mean is exactly 0 and whose covariance is exactly I."""
    z = np.random.default_rng(4).normal(size=(num, columns))
    return np.linalg.qr(z - z.mean(0))[0] * num**0.5


def both(num):
    """The same rows to fit to and to score on."""
    return Split("state", np.arange(num), np.arange(num))


def wide(z):
    return np.asarray(z, np.float64)
