"""Members of a coupled objective: their widths and the treatment of their parameters."""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import InputError, sides
from socialjepa_jax.objectives.base import Objective, Params, PyTree, groups_of
from socialjepa_jax.optim import Group, decay_mask


def width_of(objective: Objective) -> int:
    """Returns the number of features of an objective's latent."""
    images = jax.ShapeDtypeStruct((1, *image_of(objective)), jnp.float32)

    def encode(key: jax.Array, images: jax.Array) -> jax.Array:
        return objective.encode(*objective.init(key), images)["latent"]

    return jax.eval_shape(encode, jax.random.key(0), images).shape[-1]


def check_trained(objective: Objective) -> None:
    """Checks that the latents of an objective are those of the encoder that is trained.

    Raises:
        InputError: they are those of its moving average, which no pull reaches.
    """
    named = getattr(objective, "latent_encoder", "")
    if named in ("target", "teacher"):
        raise InputError(
            f"objective.latent_encoder={named!r} has no gradient, and models that learn beside "
            "others are pulled by their latents: choose 'context' or 'student'"
        )


def image_of(objective: Objective) -> tuple[int, int, int]:
    """Returns (H, W, C) of the images that an objective encodes."""
    for field in dataclasses.fields(objective):  # type: ignore[arg-type]
        encoder = getattr(objective, field.name)
        if hasattr(encoder, "image_size"):
            return *sides(encoder.image_size), encoder.channels
    raise InputError(f"objective.kind={objective.kind!r} has no encoder of images")  # type: ignore[attr-defined]


def groups_by_member(members: Mapping[str, Objective], params: Params) -> PyTree:
    """Returns the groups of every member, each clipped by norms of its own.

    Args:
        members: objectives by the name of their parameters; other parameters are one clip group.
        params: of all members.
    """
    return {name: _renamed(name, members.get(name), part) for name, part in params.items()}


def _renamed(name: str, member: Objective | None, params: Params) -> PyTree:
    """Returns a member's groups with its name before those of its clip groups."""
    own = None if member is None else groups_of(member, params)
    if own is None:
        own = jax.tree.map(lambda decays: Group(decays=decays), decay_mask(params))
    return jax.tree.map(lambda group: dataclasses.replace(group, clip=f"{name}/{group.clip}"), own)
