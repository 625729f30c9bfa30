"""Speed: FLOPs, device limits, compilation, traces and throughput."""
