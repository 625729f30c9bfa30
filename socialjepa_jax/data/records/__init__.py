"""Encoded images in files of many: TFDS, ArrayRecord, Parquet and tar, each a reader by number.

A reader (`blobs.Blobs`) yields the encoded bytes of a record by its number; an index (`index`) says
which records there are and what they are labelled. Everything else, from the order of batches to
broken records, workers and processes, is that of image files (`data.files`, `data.streaming`).
"""
