"""One file an experiment. Each returns a ConfigDict whose every field can be overridden."""
