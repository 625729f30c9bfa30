import numpy as np

from socialjepa_jax.report.image_grid import Tile, image_grid


def test_image_grid_places_images_frames_and_labels():
    grey, color = np.full((4, 8, 1), 7, np.uint8), np.zeros((4, 8, 3), np.uint8)
    stereo = np.concatenate([grey, 2 * grey], axis=-1)
    rows = [[Tile(grey), Tile(color, "#009E73", "note")], [Tile(stereo), None]]
    figure = image_grid(rows, row_labels=("r0", "r1"), column_labels=("c0", "c1"))
    (axes,) = figure.axes
    first, second, third = axes.images
    np.testing.assert_array_equal(third.get_array(), grey[..., 0])
    assert second.get_array().shape == (4, 8, 3)
    assert first.get_extent() == [0, 1, 0.5, 0]  # twice as wide as high, like the images
    assert second.get_extent()[0] > 1 and third.get_extent()[3] > 0.5
    (frame,) = axes.patches
    assert first.get_extent()[1] < frame.get_x() < second.get_extent()[0] + 0.1
    assert [text.get_text() for text in axes.texts] == ["note", "r0", "r1", "c0", "c1"]
    box, (width, height) = axes.get_position(), figure.get_size_inches()
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    unit = box.width * width / (right - left)
    assert np.isclose(unit, box.height * height / (bottom - top))  # images keep their shape
