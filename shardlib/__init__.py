"""Shards a GPU test suite over nodes by weight, runs each shard, and proves that every test ran exactly once."""

__version__ = "0.1.0"
