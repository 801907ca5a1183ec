"""The GPUs of a node: which there are, and how much of their memory is in use. The one place that asks.

Memory is read per device, not per process: inside a container NVML gives the host's process ids, which mean nothing
there, and a GPU has at most one living worker, so the device's figure is that worker's.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from shardlib.errors import InfrastructureError

# Where simulated memory lies; a process "allocates" on device i by writing a number of bytes to <folder>/<i>/<its pid>.
SIMULATED_VARIABLE = "SHARDLIB_SIMULATED_GPUS"


class Gpus(Protocol):
    """What the runner needs to know of a node's GPUs; slot i is the i-th visible one."""

    @property
    def names(self) -> tuple[str, ...]:
        """What CUDA_VISIBLE_DEVICES calls them: indices or UUIDs."""

    def used_bytes(self, slot: int) -> int | None:
        """Returns the bytes in use on one GPU by anyone, or None where that cannot be read."""

    def environment(self) -> dict[str, str]:
        """Returns what a worker needs in its environment beside CUDA_VISIBLE_DEVICES."""


class SimulatedGpus:
    """GPUs that exist as folders: memory belongs to a process and is free when the process is gone."""

    def __init__(self, count: int, folder: Path) -> None:
        self._count = count
        self._folder = folder
        for slot in range(count):
            (folder / str(slot)).mkdir(parents=True, exist_ok=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The indices, as on a node whose GPUs are all visible."""
        return tuple(str(slot) for slot in range(self._count))

    def used_bytes(self, slot: int) -> int:
        """Returns the sum of what living processes wrote for this device."""
        used = 0
        for holding in (self._folder / str(slot)).iterdir():
            if Path("/proc", holding.name).exists():
                try:
                    used += int(holding.read_text("ascii") or 0)
                except FileNotFoundError:  # freed meanwhile
                    continue
        return used

    def environment(self) -> dict[str, str]:
        """Tells the processes where to "allocate"."""
        return {SIMULATED_VARIABLE: str(self._folder)}


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class NvidiaGpus:
    """Real GPUs through NVML, by ctypes: the image under test need not have a Python binding."""

    def __init__(self, nvml: ctypes.CDLL, names: Sequence[str]) -> None:
        self._nvml = nvml
        self._names = tuple(names)

    @classmethod
    def find(cls, environment: Mapping[str, str]) -> NvidiaGpus | None:
        """Returns the node's GPUs as `CUDA_VISIBLE_DEVICES` restricts them, or None where there is no driver."""
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return None
        count = ctypes.c_uint()
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) or not count.value:
            return None
        visible = environment.get("CUDA_VISIBLE_DEVICES")
        names = [str(index) for index in range(count.value)] if visible is None else visible.split(",")
        return cls(nvml, [name.strip() for name in names if name.strip()])

    @property
    def names(self) -> tuple[str, ...]:
        """Indices in PCI order, or the UUIDs that CUDA_VISIBLE_DEVICES gave."""
        return self._names

    def used_bytes(self, slot: int) -> int | None:
        """Returns the device's used memory; None if NVML refuses (as for a MIG slice)."""
        name, device, memory = self._names[slot], ctypes.c_void_p(), _Memory()
        if name.isdigit():
            status = self._nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(device))
        else:
            status = self._nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(device))
        if status or self._nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)):
            return None
        return int(memory.used)

    def environment(self) -> dict[str, str]:
        """Makes CUDA number the devices as NVML does, else an index would mean another GPU."""
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def find(count: int, *, simulate_in: Path | None) -> Gpus:
    """Returns the node's first `count` GPUs, simulated ones in the folder `simulate_in` if that is given.

    Raises:
        InfrastructureError: the node shows fewer than the plan needs.
    """
    if count == 0 or simulate_in is not None:
        return SimulatedGpus(count, simulate_in) if simulate_in is not None else NoGpus()
    there = NvidiaGpus.find(os.environ)
    shown = len(there.names) if there is not None else 0
    if there is None or shown < count:
        raise InfrastructureError(
            f"this node shows {shown} GPUs, but the plan's shard needs {count}: "
            "check the pod's nvidia.com/gpu limit, or pass --simulated-gpus to run without GPUs"
        )
    return there


class NoGpus:
    """A pod of `cpu` tests: nothing to bind, nothing to measure."""

    names: tuple[str, ...] = ()

    def used_bytes(self, slot: int) -> None:
        """Returns None: there is no device."""

    def environment(self) -> dict[str, str]:
        """Returns nothing."""
        return {}
