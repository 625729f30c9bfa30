"""Experiments, one file each: `get_config()` returns a ConfigDict whose fields flags override."""
