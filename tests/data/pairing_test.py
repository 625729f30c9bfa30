"""Pairing images into states: exactness, splits, overlap, independence of the rows' order."""

import dataclasses

import numpy as np
import pytest

from socialjepa_jax.data import base, pair_views
from socialjepa_jax.errors import InputError
from tests.data import tables

RIG = base.Protocol("rig", (0, 180), (0, 180))
SPLITS = base.Splits(test_instances=1, test_states=0.25, seed=3)


def test_norb_pairs_the_two_azimuths_of_each_state():
    data = pair_views(tables.table(), base.Protocol("norb", (0, 135)), SPLITS, "grid")
    assert (data.num_cameras, data.num_states, data.image_shape) == (2, 24, (2, 3, 1))
    assert data.factor_names == ("category", "instance", "elevation", "lighting")
    seen = tables.factors_of(data.images)
    for name in data.factor_names:
        np.testing.assert_array_equal(seen[name], np.stack([data.factor(name)] * 2))
    np.testing.assert_array_equal(seen["azimuth"], np.repeat([[0], [135]], 24, axis=1))
    assert data.overlap == 0
    assert data.num_dropped == 0


def test_rig_turns_the_camera_round_the_pose():
    protocol = base.Protocol("rig", (0, 90, 225), (45, 270))
    data = pair_views(tables.table(), protocol, SPLITS, "grid")
    assert data.factor_names[-1] == "azimuth"
    pose = data.factor("azimuth")
    assert sorted(set(pose.tolist())) == [45, 90, 135, 180, 225]
    seen = tables.factors_of(data.images)
    for camera, offset in enumerate(protocol.azimuths):
        np.testing.assert_array_equal(seen["azimuth"][camera], (pose + offset) % 360)
        for name in ("category", "instance", "elevation", "lighting"):
            np.testing.assert_array_equal(seen[name][camera], data.factor(name))


@pytest.mark.parametrize(
    "azimuths, sector, overlap",
    [
        ((0, 180), (0, 180), 0.0),
        ((0, 180), (0, 360), 1.0),
        ((0, 90), (0, 180), 0.5),
        ((0, 45, 180), (0, 90), 2 / 6),  # 0 45 | 45 90 | 180 225: one of the first two each
    ],
)
def test_overlap_is_the_share_of_images_another_camera_also_has(azimuths, sector, overlap):
    data = pair_views(tables.table(), base.Protocol("rig", azimuths, sector), SPLITS, "grid")
    seen = [{image.tobytes() for image in images} for images in data.images]
    shared = [
        sum(image in other for image in own)
        for k, own in enumerate(seen)
        for other in [set().union(*(p for j, p in enumerate(seen) if j != k))]
    ]
    assert data.overlap == pytest.approx(overlap)
    assert sum(shared) / (len(azimuths) * data.num_states) == pytest.approx(overlap)


@pytest.mark.parametrize("protocol", [RIG, base.Protocol("norb", (0, 135))])
def test_order_of_rows_and_columns_does_not_matter(protocol):
    table = tables.table()
    data = pair_views(table, protocol, SPLITS, "grid")
    order = np.random.default_rng(0).permutation(len(table.factors))
    columns = [2, 1, 0, 3, 4]
    shuffled = base.ObservationTable(
        table.images[order],
        table.factors[order][:, columns].astype(np.int64),
        tuple(tables.NAMES[column] for column in columns),
        table.label_names,
    )
    again = pair_views(shuffled, protocol, SPLITS, "grid")
    for field in dataclasses.fields(base.ViewDataset):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(data, field.name))


def test_states_missing_in_a_camera_are_dropped_and_counted_and_keep_the_others_ids():
    table = tables.table()
    data = pair_views(table, RIG, SPLITS, "grid")
    gone = (table.column("azimuth") == 225) & (table.column("instance") == 1)
    some = base.ObservationTable(
        table.images[~gone], table.factors[~gone], tables.NAMES, table.label_names
    )
    fewer = pair_views(some, RIG, SPLITS, "grid")
    kept = ~((data.factor("azimuth") == 45) & (data.factor("instance") == 1))
    assert fewer.num_dropped == (~kept).sum() == 8
    np.testing.assert_array_equal(fewer.state_ids, data.state_ids[kept])
    np.testing.assert_array_equal(fewer.images, data.images[:, kept])
    np.testing.assert_array_equal(fewer.factors, data.factors[kept])


def test_an_image_of_one_camera_alone_is_a_state_that_is_dropped():
    factors = np.array([[0, 0, 0, 0, 0], [0, 0, 180, 0, 0], [0, 1, 0, 0, 0], [0, 1, 180, 0, 0]])
    lonely = np.concatenate([factors, [[0, 1, 200, 0, 0]]])  # pose 20, seen by camera 1 only
    data = pair_views(tables.from_factors(lonely), RIG, base.Splits(1, 0.5), "few")
    assert (data.num_states, data.num_dropped) == (2, 1)


def test_types_and_ids():
    data = pair_views(tables.table(), RIG, SPLITS, "grid")
    assert data.images.dtype == np.uint8
    assert data.state_ids.dtype == np.int64
    for field in ("instance_ids", "labels", "factors", "split_state", "split_instance"):
        assert getattr(data, field).dtype == np.int32
    assert len(np.unique(data.state_ids)) == data.num_states
    np.testing.assert_array_equal(data.labels, data.factor("category"))
    objects = np.stack([data.labels, data.factor("instance"), data.instance_ids], axis=1)
    assert len(np.unique(objects, axis=0)) == len(np.unique(data.instance_ids)) == 6


def test_splits_hold_out_objects_evenly_and_the_share_of_states():
    data = pair_views(tables.table(instances=5), RIG, base.Splits(2, 0.3, seed=1), "grid")
    for label in (0, 1):
        of_label = data.labels == label
        assert len(np.unique(data.instance_ids[of_label & (data.split_instance == 1)])) == 2
        assert len(np.unique(data.instance_ids[of_label & (data.split_instance == 0)])) == 3
    held_out = set(data.instance_ids[data.split_instance == 1].tolist())
    assert held_out.isdisjoint(data.instance_ids[data.split_instance == 0].tolist())
    assert data.split_state.sum() == round(0.3 * data.num_states)
    expected = [
        row
        for row in range(data.num_states)
        if data.split_state[row] == 0 and data.split_instance[row] == 0
    ]
    np.testing.assert_array_equal(data.train_rows, expected)


def test_splits_depend_on_their_seed_alone():
    splits = [base.Splits(2, 0.3, seed) for seed in (1, 1, 2)]
    first, again, other = (pair_views(tables.table(instances=9), RIG, s, "grid") for s in splits)
    np.testing.assert_array_equal(first.split_state, again.split_state)
    np.testing.assert_array_equal(first.split_instance, again.split_instance)
    assert (first.split_state != other.split_state).any()
    assert (first.split_instance != other.split_instance).any()
    held_out = first.factor("instance")[first.split_instance == 1]
    by_label = [set(held_out[first.labels[first.split_instance == 1] == k]) for k in (0, 1)]
    assert by_label[0] != by_label[1]  # categories draw apart


def test_no_objects_need_be_held_out():
    data = pair_views(tables.table(instances=1), RIG, base.Splits(test_instances=0), "grid")
    assert data.split_instance.sum() == 0


def test_what_the_data_cannot_give_is_refused():
    with pytest.raises(InputError, match=r"50 degrees sees nothing.*\[0, 45, 90"):
        pair_views(tables.table(), base.Protocol("norb", (0, 50)), SPLITS, "grid")
    with pytest.raises(InputError, match="from all azimuths"):
        pair_views(tables.table((0, 90)), base.Protocol("rig", (0, 45)), SPLITS, "grid")
    with pytest.raises(InputError, match="below the 3 objects of category 'cup'"):
        pair_views(tables.table(), RIG, base.Splits(test_instances=3), "grid")
    with pytest.raises(InputError, match="one side empty"):
        pair_views(tables.table(), RIG, base.Splits(1, 0.001), "grid")
    table = tables.table()
    twice = tables.from_factors(np.concatenate([table.factors, table.factors[5:6]]))
    with pytest.raises(InputError, match="two images"):
        pair_views(twice, RIG, SPLITS, "grid")
