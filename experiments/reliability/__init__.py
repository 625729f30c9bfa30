"""Checks of runs that are killed, signalled, divided over processes or given damaged files."""
