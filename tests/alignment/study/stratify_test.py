"""Splits with labels: equal shares of every class, as whole groups allow."""

import numpy as np
import pytest

from socialjepa_jax.alignment.study.settings import Settings, Split, hold_out

RNG = np.random.default_rng(0)


def shares(labels, held):
    return {name: held[labels == name].mean() for name in np.unique(labels)}


@pytest.mark.parametrize("fraction", [0.2, 0.35, 0.5])
def test_single_rows_are_held_out_in_proportion(fraction):
    labels = np.repeat(["a", "b", "c"], [700, 250, 50])[RNG.permutation(1000)]
    rows = np.arange(1000)
    for seed in range(5):
        held = hold_out(rows, fraction, seed, labels=labels)
        assert held.sum() == hold_out(rows, fraction, seed).sum() == 1000 * fraction
        for name, share in shares(labels, held).items():
            assert abs(share - fraction) <= 1 / (labels == name).sum(), name
    assert (held != hold_out(rows, fraction, 0, labels=labels)).any()
    plain = [abs(shares(labels, hold_out(rows, fraction, s))["c"] - fraction) for s in range(5)]
    assert max(plain) > 1 / 50  # what labels change


def test_whole_groups_of_one_class_are_held_out_in_proportion():
    sizes = RNG.integers(1, 9, 200)
    groups = np.repeat(np.arange(200), sizes)
    classes = RNG.integers(0, 4, 200)
    for seed in range(5):
        held = hold_out(groups, 0.25, seed, labels=classes[groups])
        assert not set(groups[held]) & set(groups[~held])
        for name, share in shares(classes[groups], held).items():
            assert abs(share - 0.25) <= 8 / (classes[groups] == name).sum(), name


def test_classes_of_few_rows_share_what_is_held_out():
    labels = np.arange(300) // 2  # two rows of each
    held = hold_out(np.arange(300), 0.2, 0, labels=labels)
    counts = np.bincount(labels[held])
    assert held.sum() == 60 and counts.max() == 1


def test_answers_are_held_out_first_and_count():
    labels = np.repeat([0, 1], 50)
    first = np.arange(10)
    held = hold_out(np.arange(100), 0.2, 0, first, labels)
    assert held[first].all() and held.sum() == 20
    assert shares(labels, held) == {0: 0.2, 1: 0.2}  # the answers are the share of their class


def test_what_the_groups_do_not_allow_is_said():
    rows = np.arange(100)

    def remarks(groups, labels, **options):
        settings = Settings(**options)
        return Split.draw(groups, settings, labels=labels).remarks

    even = np.arange(100) % 2
    assert remarks(rows, even) == () == remarks(rows // 4 * 2 + even, even)
    assert Split.draw(rows, Settings()).remarks == ()
    (mixed,) = remarks(rows // 10, even)
    assert mixed == "groups hold several classes, so the split is not stratified by label"
    plain = hold_out(rows // 10, 0.2, 0)
    np.testing.assert_array_equal(hold_out(rows // 10, 0.2, 0, labels=even), plain)
    rare = np.where(rows == 7, 1, 0)
    assert remarks(rows, rare) == ("1 of 2 classes have no held-out row",)
    large = np.where(rows < 40, 0, rows)  # one group is 40 % of the rows, and all of its class
    assert remarks(large, np.where(rows < 40, "big", "small")) == (
        "1 of 2 classes have no held-out row",
        "class big is 0 % of the held-out rows and 50 % of the training rows",
    )
