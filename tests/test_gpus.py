from __future__ import annotations

import pytest

from shardlib import gpus
from shardlib.errors import InfrastructureError


@pytest.mark.real_gpu
def test_real_gpus_are_named_and_measured() -> None:
    found = gpus.NvidiaGpus.find({})
    assert found is not None
    assert found.names[0] == "0"
    used = found.used_bytes(0)
    assert used is not None
    assert used >= 0


@pytest.mark.real_gpu
def test_cuda_visible_devices_restricts_real_gpus() -> None:
    found = gpus.NvidiaGpus.find({"CUDA_VISIBLE_DEVICES": "0"})
    assert found is not None
    assert found.names == ("0",)


def test_a_node_with_too_few_gpus_is_infrastructure() -> None:
    with pytest.raises(InfrastructureError, match="needs 4096"):
        gpus.find(4096, simulate_in=None)
