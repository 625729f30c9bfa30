"""The comparison tables of Social-JEPA on the toy world: every method trained once, read by all."""
