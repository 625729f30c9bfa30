"""Experiments of LeJEPA on images and on probes."""

PROBES = {"accuracy": "categories of new objects", "objects": "objects in new states"}
"""Linear probes on frozen latents (`runs.probes`): column of the rows -> its task in words."""
