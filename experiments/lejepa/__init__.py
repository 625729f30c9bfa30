"""Experiments of LeJEPA on pictures and on probes."""
