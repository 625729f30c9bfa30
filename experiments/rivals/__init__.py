"""Comparisons of the objectives under one protocol."""
