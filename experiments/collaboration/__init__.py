"""Agents that help each other: what a teacher is worth, and against which baseline."""
