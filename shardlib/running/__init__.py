"""Runs one shard: a pool of pytest workers bound to GPUs, and the record of what happened."""
