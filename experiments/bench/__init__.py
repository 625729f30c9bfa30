"""Benchmarks: speed against targets, hardware limits and other libraries; reliability."""
