"""A worker's environment variables: which GPUs it sees, and what it must not share with its neighbours. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from shardlib.running.orphans import WORKER_VARIABLE

# What the suite can ask instead of a driver; collection sets it to the same number (collecting/collect.py).
GPUS_VARIABLE = "SHARDLIB_GPUS"
# Compilers of kernels lock these badly or not at all when several processes build the same extension at once.
_COMPILER_CACHES = ("TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR")


def worker_environment(
    base: Mapping[str, str],
    *,
    worker_id: str,
    gpus: Sequence[str],
    slots: Sequence[int],
    scratch: Path,
    hash_seed: str,
    coverage_file: Path,
) -> dict[str, str]:
    """Returns the environment of one worker.

    Args:
        base: the runner's own environment, which stays in force otherwise.
        worker_id: goes into WORKER_VARIABLE, by which leftover processes are found.
        gpus: the names of its GPUs for CUDA_VISIBLE_DEVICES; none for a `cpu` worker, which must see no device.
        slots: the slots it holds; compiler caches belong to the first, so that they survive the worker and still have
            one user at a time.
        scratch: a folder of this attempt.
        hash_seed: PYTHONHASHSEED as it was while collecting: ids made from sets must be the same.
        coverage_file: where coverage, if it is measured, writes its data: one file for each worker.
    """
    own = {
        WORKER_VARIABLE: worker_id,
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
        "PYTHONHASHSEED": hash_seed,
        GPUS_VARIABLE: str(len(gpus)),
        "COVERAGE_FILE": str(coverage_file),
    }
    for variable in _COMPILER_CACHES:
        root = Path(base[variable]) if base.get(variable) else scratch / variable.lower()
        own[variable] = str(root / f"slot-{slots[0]}")
    # The plan's arguments have it already.
    kept = {name: value for name, value in base.items() if name != "PYTEST_ADDOPTS"}
    return {**kept, **own}
