"""Datasets as view datasets: a state of the world and what each camera sees of it."""
