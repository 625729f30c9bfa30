"""Three synchronised cameras of a drive, an agent each."""
