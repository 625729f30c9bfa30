"""Performance: FLOPs, device limits, compilation, traces and throughput."""
