"""The GPU suite: the command, the sizes of its problems and the sections that measure them."""
