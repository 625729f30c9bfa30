"""Benchmarks of speed, beside their limits and beside PyTorch."""
