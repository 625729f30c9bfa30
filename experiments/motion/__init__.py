"""Experiments in worlds in motion."""
