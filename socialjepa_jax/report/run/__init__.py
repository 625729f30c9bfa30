"""The page of a training run."""
