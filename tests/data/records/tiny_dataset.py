"""A dataset of tensorflow-datasets, prepared by its own builder without TensorFlow."""

import io
import pathlib

import pytest

tfds = pytest.importorskip(
    "tensorflow_datasets", reason="tensorflow-datasets is not installed: pip install '.[data]'"
)


class Tiny(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")
    given: list[tuple[str, bytes, int]]
    label_names: tuple[str, ...]

    def _info(self):
        features = {
            "image": tfds.features.Image(shape=(None, None, 3)),
            "label": tfds.features.ClassLabel(names=self.label_names),
            "file_name": tfds.features.Text(),
        }
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for number, (name, blob, label) in enumerate(self.given):
            yield number, {"image": io.BytesIO(blob), "label": label, "file_name": name}


def prepare(folder: pathlib.Path, given: list[tuple[str, bytes, int]], form: str) -> None:
    """Writes the dataset in two files of a format."""
    from tests.data.records.record_files import NAMES

    Tiny.given, Tiny.label_names = given, NAMES
    config = tfds.download.DownloadConfig(num_shards=2)
    Tiny(data_dir=folder, file_format=form).download_and_prepare(download_config=config)
