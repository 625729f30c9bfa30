"""Independent JEPA agents, and the one matrix that translates between them."""
