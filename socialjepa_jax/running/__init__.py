"""Running: launch, workdir, checkpoints, signals, groups of processes, monitors and logs."""
