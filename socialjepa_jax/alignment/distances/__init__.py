"""Distances, neighbours and rank correlation over all pairs of points, without an N x N array."""
