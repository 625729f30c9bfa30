"""Readers of files, strict and without pickle: the files are hostile input."""

from socialjepa_jax.alignment.study.formats.arrays import NPY, NPZ, SAFETENSORS
from socialjepa_jax.alignment.study.formats.base import UNREADABLE, Format
from socialjepa_jax.alignment.study.formats.delimited import DELIMITED
from socialjepa_jax.alignment.study.formats.jsonl import JSONL
from socialjepa_jax.alignment.study.formats.parquet import PARQUET, choose_matrix, column_values

FORMATS = {
    ".npy": NPY,
    ".npz": NPZ,
    ".safetensors": SAFETENSORS,
    ".parquet": PARQUET,
    ".csv": DELIMITED,
    ".tsv": DELIMITED,
    ".jsonl": JSONL,
}

__all__ = ["FORMATS", "UNREADABLE", "Format", "choose_matrix", "column_values"]
