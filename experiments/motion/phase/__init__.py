"""Where identification stops in a world in motion: cells of a map, their prediction, the runs."""
