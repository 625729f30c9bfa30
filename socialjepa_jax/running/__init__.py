"""The life of a run: launch, workdir, checkpoints, signals, several hosts, monitors, logs."""
