"""Experiments on linear alignability: trained agents beside their controls."""
