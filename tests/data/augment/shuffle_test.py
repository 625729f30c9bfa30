"""Orders of pixels: what they keep, what they depend on, and what they cannot change."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.data.augment.shuffle import Shuffle, shuffled, sources
from socialjepa_jax.errors import InputError
from socialjepa_jax.evaluation import controls
from socialjepa_jax.models import encoders
from socialjepa_jax.models.vit import ViTConfig

KEY = jax.random.key(3)
SIDE, PATCH = 12, 4
INDEX = jnp.array([5, 0, 9])
CASES = list(itertools.product(("patch", "pixel", "inner"), ("agent", "image")))
RUN = jax.jit(shuffled, static_argnums=1)


def images(count=3, channels=2):
    """Images u8 in which every pixel has a value of its own."""
    values = np.random.default_rng(0).permutation(256)[: SIDE * SIDE]
    one = np.stack([values] * channels, -1).reshape(SIDE, SIDE, channels)
    return np.stack([np.roll(one, k, axis=0) for k in range(count)]).astype(np.uint8)


def order_of(before, after):
    """The pixel that took each place: i64[P]."""
    places = {value: place for place, value in enumerate(before[..., 0].ravel())}
    return np.array([places[value] for value in np.asarray(after)[..., 0].ravel()])


def orders(config, key=KEY, index=INDEX):
    given = images()
    found = RUN(given, config, key, index)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found[..., 0], found[..., 1])  # channels stay together
    return np.stack([order_of(*pair) for pair in zip(given, found)])


@pytest.mark.parametrize(("unit", "per"), CASES)
def test_every_pixel_keeps_its_value_and_an_order_is_a_function_of_key_and_index(unit, per):
    config = Shuffle(unit, per, PATCH)
    found = orders(config)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.arange(SIDE * SIDE)[None].repeat(3, 0))
    alike = [(found[i] == found[j]).all() for i, j in itertools.combinations(range(3), 2)]
    assert alike == [per == "agent"] * 3
    np.testing.assert_array_equal(orders(config), found)
    np.testing.assert_array_equal(orders(config, index=INDEX[::-1]), found[::-1])
    assert (orders(config, key=jax.random.key(4)) != found).any(1).all()


@pytest.mark.parametrize("per", ["agent", "image"])
def test_patches_move_whole_and_inner_orders_are_those_of_one_patch(per):
    def patches(order):
        """Rows and columns of the taken pixels, by patch: i64[N, p p]."""
        cut = order.reshape(SIDE // PATCH, PATCH, SIDE // PATCH, PATCH).swapaxes(1, 2)
        return cut.reshape(-1, PATCH * PATCH)

    straight = patches(np.arange(SIDE * SIDE))
    for order in orders(Shuffle("patch", per, PATCH)):
        assert {tuple(p) for p in patches(order)} == {tuple(p) for p in straight}
    for order in orders(Shuffle("inner", per, PATCH)):
        steps = patches(order) - straight
        assert (steps == steps[:1]).all() and (steps != 0).any()
    whole = orders(Shuffle("pixel", per))[0]
    assert len(np.unique(whole.reshape(SIDE, SIDE) // SIDE)) == SIDE
    assert (np.sort(patches(whole)) != np.sort(straight)).any()


def test_off_is_the_identity():
    given = jnp.asarray(images())
    assert shuffled(given, Shuffle(), KEY, INDEX) is given


def test_an_order_inside_patches_is_absorbed_by_the_patch_embedding():
    """Invariance (i): the permuted kernel encodes the shuffled image as the kernel the image."""
    vit = ViTConfig(image_size=SIDE, patch_size=PATCH, channels=2, width=8, depth=1, heads=2,
                    init_std=0.3)  # fmt: skip
    params = jax.jit(lambda key: encoders.init(vit, key))(KEY)
    config, shown = Shuffle("inner", "agent", PATCH), images() / np.float32(255)
    # In the first patch of an image the sources are the order of every patch.
    order = np.asarray(sources(config, KEY, SIDE, SIDE)).reshape(SIDE, SIDE)[:PATCH, :PATCH]
    inner = (order // SIDE * PATCH + order % SIDE).ravel()
    kernel = params["patch"]["kernel"].reshape(PATCH * PATCH, 2, -1)[inner].reshape(32, -1)
    absorbed = {**params, "patch": {**params["patch"], "kernel": kernel}}
    encode = jax.jit(lambda params, x: encoders.apply(vit, params, x)[0]["cls"])
    moved = shuffled(jnp.asarray(shown), config, KEY, INDEX)
    expected = encode(params, shown)
    np.testing.assert_allclose(encode(absorbed, moved), expected, atol=2e-5)
    assert np.abs(encode(params, moved) - expected).max() > 0.01  # or nothing was tested


@pytest.mark.parametrize("unit", ["patch", "pixel", "inner"])
def test_components_of_pixels_do_not_see_a_fixed_order(unit):
    """Invariance (iii): the scores of every image are the same to rounding."""
    given = np.random.default_rng(1).integers(0, 256, (60, SIDE, SIDE, 2), np.uint8)
    moved = np.asarray(shuffled(given, Shuffle(unit, "agent", PATCH), KEY, jnp.arange(60)))
    assert (moved != given).any((1, 2, 3)).all()
    scores = [controls.pixel_pca(x, np.arange(40), 5) for x in (given, moved)]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"unit": "row"}, "unit='row'"),
        ({"per": "epoch"}, "per='epoch'"),
        ({"patch_size": 0}, "patch_size=0"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Shuffle(**fields)
    with pytest.raises(InputError, match="image_size=10 must be a multiple of 4"):
        Shuffle("patch", "agent", 4).check_size(12, 10)
    Shuffle("pixel", "agent", 4).check_size(12, 10)  # needs no patches
