"""Image files: in class folders, in a folder for each camera, or listed in a table."""

from socialjepa_jax.data.folder.dataset import FolderData

__all__ = ["FolderData"]
