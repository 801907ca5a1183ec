"""The worker process's entry: wires the channels, guards against the runner's death, and calls pytest."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shardlib.options import PytestOptions
from shardlib.running.files import FileCollector
from shardlib.running.plugin import Order, WorkerPlugin
from shardlib.running.protocol import CommandChannel, EventChannel
from shardlib.settings import Settings

_PR_SET_PDEATHSIG = 1
# Asks a worker that hangs for its stacks. A real-time signal: programs rarely use those, pytest's plugins never do.
STACKS_SIGNAL = signal.SIGRTMIN + 7


def main(arguments: list[str]) -> int:
    """Serves orders until told to end; `arguments` are the read end, the write end, and a JSON file of the start."""
    started = time.monotonic()
    command_fd, event_fd, runner_pid = int(arguments[0]), int(arguments[1]), int(arguments[2])
    hello = json.loads(Path(arguments[3]).read_text("ascii"))
    _die_with_the_runner(runner_pid)
    commands, events = CommandChannel(command_fd), EventChannel(event_fd)
    # Its own copy of stderr, because pytest's capturing replaces descriptor 2 while a test runs.
    stacks = os.fdopen(os.dup(2), "w")
    faulthandler.register(STACKS_SIGNAL, file=stacks, all_threads=True, chain=False)
    settings = Settings.from_json(hello["settings"], where="the plan")
    files = FileCollector(max_detail=settings.max_detail_bytes)
    plugin = WorkerPlugin(
        events,
        commands,
        receive=_order,
        files=files,
        settings=settings,
        rootdir=hello["rootdir"],
        cache_dir=Path(hello["cache_dir"]),
        started=started,
    )
    options = PytestOptions(random_seed=hello["random_seed"])
    os.chdir(hello["cwd"])
    sys.argv = ["pytest", *hello["args"]]
    plugin.ended(int(pytest.main(hello["args"], plugins=[options, files, plugin])))
    return 0


def _order(command: dict[str, Any]) -> Order | None:
    """Reads an order from the file that the command names: node ids can be longer than a pipe holds."""
    if command.get("command") != "run":
        return None
    order = json.loads(Path(command["order"]).read_text("ascii"))
    for name in ("tests", "siblings"):
        order[name] = tuple(order[name])
    return Order(**order)


def _die_with_the_runner(runner_pid: int) -> None:
    """Asks Linux to kill this process when the runner dies, however it dies."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != runner_pid:  # it died before the request was in force
        os._exit(0)
