"""Changes of data: what belongs together, what is held out, and how images are changed."""

from tests.mutants.mutant import Mutant

_ORDER = "socialjepa_jax/data/order.py"
_PAIRING = "socialjepa_jax/data/pairing.py"
_BASE = "socialjepa_jax/data/base.py"
_RESIDENT = "socialjepa_jax/data/resident.py"
_COLOUR = "socialjepa_jax/data/augment/colour.py"
_GEOMETRY = "socialjepa_jax/data/augment/geometry.py"
_VIEWS = "socialjepa_jax/data/augment/views.py"

_PAIRS = ("tests/data/pairing_test.py",)
_EPOCHS = (
    "tests/data/order_test.py::test_an_epoch_visits_distinct_rows_and_epochs_differ",
    "tests/data/order_test.py::test_a_batch_depends_on_key_and_step_alone",
)
_ON_DEVICE = ("tests/data/resident_test.py",)
_COLOURS = ("tests/data/augment/colour_test.py",)
_CROPS = ("tests/data/augment/geometry_test.py",)
_RECIPES = ("tests/data/augment/views_test.py",)

DATA = (
    Mutant(
        "every epoch has the same order",
        _ORDER,
        "jax.random.fold_in(key, step // steps)",
        "jax.random.fold_in(key, 0)",
        _EPOCHS,
    ),
    Mutant(
        "batches of an epoch overlap",
        _ORDER,
        "step % steps * batch_size + jnp.arange",
        "step % steps + jnp.arange",
        _EPOCHS,
    ),
    Mutant(
        "a host forgets to walk a cycle to its end",
        _ORDER,
        "while (outside := images >= num_rows).any():",
        "while (outside := images > num_rows).any():",
        ("tests/data/streaming_test.py::test_the_order_on_the_host_is_that_of_the_device",),
    ),
    Mutant(
        "the end of a sector belongs to it",
        _PAIRING,
        "(columns[-1] < high)",
        "(columns[-1] <= high)",
        _PAIRS,
    ),
    Mutant(
        "a camera is turned the other way",
        _PAIRING,
        "(columns[-1] - azimuth) % 360",
        "(columns[-1] + azimuth) % 360",
        _PAIRS,
    ),
    Mutant(
        "objects of two categories share a number",
        _PAIRING,
        "distinct_rows(factors[:, :2])",
        "distinct_rows(factors[:, 1:2])",
        _PAIRS,
    ),
    Mutant(
        "states that one camera lacks are kept",
        _PAIRING,
        "complete = (rows >= 0).all(axis=0)",
        "complete = (rows >= 0).any(axis=0)",
        _PAIRS,
    ),
    Mutant(
        "images of one camera alone count as shared",
        _PAIRING,
        "(np.bincount(rows.ravel())[rows] > 1).mean()",
        "(np.bincount(rows.ravel())[rows] > 0).mean()",
        _PAIRS,
    ),
    Mutant(
        "the held-out share of states is trained on",
        _BASE,
        "permutation(count)[:held_out]",
        "permutation(count)[held_out:]",
        _PAIRS,
    ),
    Mutant(
        "every category holds out objects of the first",
        _PAIRING,
        "np.unique(instance_ids[labels == label])",
        "np.unique(instance_ids[labels == labels[0]])",
        _PAIRS,
    ),
    Mutant(
        "states that are train in one split are trained on",
        _BASE,
        "(self.split_state == 0) & (self.split_instance == 0)",
        "(self.split_state == 0) | (self.split_instance == 0)",
        _PAIRS,
    ),
    Mutant(
        "azimuths of smallNORB are multiples of 20 degrees",
        "socialjepa_jax/data/smallnorb.py",
        "10 * azimuth, lighting]",
        "20 * azimuth % 360, lighting]",
        ("tests/data/smallnorb_test.py::test_azimuths_are_degrees",),
    ),
    Mutant(
        "changes of an image follow its place in the batch",
        _RESIDENT,
        "in_axes=(None, 0))(key, index)",
        "in_axes=(None, 0))(key, jnp.arange(len(index)))",
        _ON_DEVICE,
    ),
    Mutant(
        "pixel statistics are of all states",
        _RESIDENT,
        "channel_statistics(images_KNHWC[camera][rows])",
        "channel_statistics(images_KNHWC[camera])",
        _ON_DEVICE,
    ),
    Mutant(
        "all agents have the first camera's pixel statistics",
        _RESIDENT,
        "channel_statistics(images_KNHWC[camera][rows])",
        "channel_statistics(images_KNHWC[cameras[0]][rows])",
        _ON_DEVICE,
    ),
    Mutant(
        "pixels have an unbiased deviation",
        _RESIDENT,
        ".sum(axis=1) / total)",
        ".sum(axis=1) / (total - 1))",
        _ON_DEVICE,
    ),
    Mutant(
        "contrast is about the mean of the channels",
        _COLOUR,
        "_blend(luma(image_HWC).mean(), image_HWC, factor)",
        "_blend(image_HWC.mean(), image_HWC, factor)",
        _COLOURS,
    ),
    Mutant(
        "jitter only brightens",
        _COLOUR,
        "minval=1 - strength, maxval",
        "minval=1, maxval",
        _COLOURS,
    ),
    Mutant(
        "the hue is turned by half",
        _COLOUR,
        "(sextant + 6 * turn)",
        "(sextant + 3 * turn)",
        _COLOURS,
    ),
    Mutant(
        "images are turned upside down",
        _GEOMETRY,
        "image_HWC[:, ::-1]",
        "image_HWC[::-1]",
        ("tests/data/augment/geometry_test.py::test_flip_mirrors_about_half_of_the_images",),
    ),
    Mutant(
        "boxes are as tall as they are to be wide",
        _GEOMETRY,
        "jnp.stack([jnp.sqrt(areas / ratios), jnp.sqrt(areas * ratios)], axis=1)",
        "jnp.stack([jnp.sqrt(areas * ratios), jnp.sqrt(areas / ratios)], axis=1)",
        ("tests/data/augment/geometry_test.py::test_a_ratio_is_width_over_height",),
    ),
    Mutant(
        "the two recipes draw the same crops",
        _VIEWS,
        "large.append(crops(half, self.global_views - half",
        "large.append(crops(0, self.global_views - half",
        _RECIPES,
    ),
    Mutant(
        "an odd view is of the second recipe",
        _VIEWS,
        "half = (self.global_views + 1) // 2",
        "half = max(1, self.global_views // 2)",
        _RECIPES,
    ),
)
