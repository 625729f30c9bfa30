"""Manifests detect changes that decoders accept, and are read strictly."""

import numpy as np
import pytest

from socialjepa_jax.data import manifest
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.errors import InputError
from tests.data.image_folder import encoded, random_image, write_table


def test_a_manifest_notices_what_a_decoder_does_not(tmp_path):
    config = write_table(tmp_path)
    strict = FolderData(**{**vars(config), "manifest": True})
    with pytest.raises(InputError, match=r"manifest\.json: cannot be read"):
        strict.load(tmp_path)
    assert len(manifest.make(tmp_path)) == 25
    assert manifest.check(tmp_path) == []
    np.testing.assert_array_equal(strict.load(tmp_path).images, config.load(tmp_path).images)
    path = tmp_path / "images" / "3.png"
    path.write_bytes(encoded(random_image(99)))  # another intact image
    assert manifest.check(tmp_path) == ["images/3.png: has changed"]
    config.load(tmp_path)
    with pytest.raises(InputError, match=r"3\.png: is not the file of the manifest"):
        strict.load(tmp_path)
    path.unlink()
    (tmp_path / "new.png").write_bytes(b"")
    assert manifest.check(tmp_path) == [
        "new.png: is not in the manifest",
        "images/3.png: is missing",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{}", "{", '{"schema": 1, "sha256": {"a": "b"}}', '{"schema": [1], "sha256": {}}',
        '{"schema": 1, "sha256": {"a": "' + "g" * 64 + '"}}',
        pytest.param("[" * 100_000, id="nested"), pytest.param("9" * 5000, id="digits"),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json: "):
        manifest.read(tmp_path)


@pytest.mark.parametrize("use", [manifest.make, manifest.check])
@pytest.mark.parametrize("name", ["a" * 300, "link", "\0"], ids=["long", "link", "nul"])
def test_odd_folders_are_refused(tmp_path, use, name):
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(InputError, match=r"no such folder|cannot be read|embedded null"):
        use(tmp_path / name)
