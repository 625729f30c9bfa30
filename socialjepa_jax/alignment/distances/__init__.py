"""All pairs of points at once: distances, neighbours, rank correlation; no N x N array."""
