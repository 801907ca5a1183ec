"""Measurements of shardlib against its peers: `python -m benchmarks packing`, `makespan`, `runner`, `parse`, `weights`."""
