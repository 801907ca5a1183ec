"""Which group runs on which shard, in what order: packing for the shortest wall clock of the slowest pod. Pure."""

from __future__ import annotations

from shardlib.packing.packer import Packing, Strategy, pack

__all__ = ["Packing", "Strategy", "pack"]
