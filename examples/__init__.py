"""Suites to shard, and the demonstration that shards one."""
