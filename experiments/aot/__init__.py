"""Programs compiled ahead of time for TPUs and GPUs that are not there."""
