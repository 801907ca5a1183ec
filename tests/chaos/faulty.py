"""The conftest of the suite under chaos: commits the faults that `faults.json` names, and keeps its own account.

Standard library and pytest only: it is copied into the checkout under test, and its processes are what goes wrong.
The account is a file to which every line is appended by one write, so that what ran is known without the runner.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

PLACE = Path(os.environ["CHAOS_PLACE"])  # the shard's folder: `account`, and a marker for each fault that is done once
SLEEP = ("/bin/sleep", os.environ["CHAOS_SLEEP"])  # a number of seconds that no other process sleeps
WORKER = os.environ["SHARDLIB_WORKER"]
FAULTS = json.loads(Path(__file__).with_name("faults.json").read_text("ascii"))
LEFTOVER_BYTES = 1 << 26
OUTPUT_LINES = 20_000


def tell(what: str, test: str, **more: object) -> None:
    line = json.dumps({"what": what, "test": test, "pid": os.getpid(), "worker": WORKER, **more}) + "\n"
    fd = os.open(PLACE / "account", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(fd, line.encode("ascii"))
    os.close(fd)


def commit(test: str, where: str) -> None:
    """Commits the test's fault, if it has one for this phase and has not done it before where once is enough."""
    fault = FAULTS.get(test)
    if fault is None or (fault["kind"].startswith("teardown") != (where == "teardown")):
        return
    if fault["once"]:
        try:
            (PLACE / f"once-{test}").touch(exist_ok=False)
        except FileExistsError:
            return
    tell("fault", test, kind=fault["kind"])
    COMMIT[fault["kind"]]()


@pytest.fixture(autouse=True)
def _told(request: pytest.FixtureRequest) -> Iterator[None]:
    tell("start", request.node.nodeid)
    yield
    commit(request.node.nodeid, "teardown")
    tell("end", request.node.nodeid)


@pytest.fixture
def act(request: pytest.FixtureRequest) -> Callable[[], None]:
    def act() -> None:
        commit(request.node.nodeid, "call")
        tell("pass", request.node.nodeid)

    return act


# --- the faults -----------------------------------------------------------------------------------------------------


def _exit_zero() -> None:
    os._exit(0)


def _segfault() -> None:
    ctypes.string_at(0)


def _kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang() -> None:
    while True:
        time.sleep(60)


def _hang_in_c() -> None:
    ctypes.PyDLL(None).sleep(600)  # PyDLL keeps the GIL: no Python code runs, no Python signal handler either


def _hang_deaf() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _hang_in_c()


def _fail() -> None:
    raise AssertionError("as planned")


def _sticky() -> None:
    raise RuntimeError("CUDA error: device-side assert triggered")


def _system_exit() -> None:
    sys.exit(3)


def _pytest_exit() -> None:
    pytest.exit("enough")


def _interrupt() -> None:
    raise KeyboardInterrupt


def _close_all() -> None:
    os.closerange(0, 4096)


def _close_stdout() -> None:
    os.close(1)
    os.close(2)


def _close_streams() -> None:
    sys.stdout.close()
    sys.stderr.close()


def _print() -> None:
    for number in range(OUTPUT_LINES):
        sys.stdout.write(f"{number:>60}\n")
    os.write(1, b"\xff" * 1_000_000)


def _child() -> None:
    if os.fork() == 0:
        _hang()


def _child_in_session() -> None:
    subprocess.Popen(SLEEP, start_new_session=True)


def _child_escaped() -> None:
    """Double fork, own session, no environment: only its adoption by the runner gives it away."""
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(SLEEP[0], list(SLEEP), {})
        os._exit(0)
    with suppress(ChildProcessError):  # a test before ignores SIGCHLD
        os.waitpid(child, 0)


def _fork_returns() -> None:
    os.fork()  # both return into pytest


def _change_directory() -> None:
    folder = Path(tempfile.mkdtemp())
    os.chdir(folder)
    folder.rmdir()


def _replace_handlers() -> None:
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_IGN)
        except OSError:  # the C library keeps some for itself
            continue


def _leave_memory() -> None:
    gpu = os.environ["CUDA_VISIBLE_DEVICES"].split(",")[0]
    Path(os.environ["SHARDLIB_SIMULATED_GPUS"], gpu, str(os.getpid())).write_text(str(LEFTOVER_BYTES), "ascii")


def _child_with_memory() -> None:
    if os.fork() == 0:
        os.setsid()
        _leave_memory()
        _hang()


COMMIT: dict[str, Callable[[], None]] = {
    "segfault": _segfault,
    "exit 0": _exit_zero,
    "abort": os.abort,
    "kill itself": _kill_itself,
    "close all": _close_all,
    "hang": _hang,
    "hang in C": _hang_in_c,
    "hang deaf": _hang_deaf,
    "teardown hangs": _hang,
    "fail": _fail,
    "sys.exit": _system_exit,
    "pytest.exit": _pytest_exit,
    "interrupt": _interrupt,
    "sticky": _sticky,
    "close streams": _close_streams,
    "close stdout": _close_stdout,
    "print": _print,
    "child": _child,
    "child in session": _child_in_session,
    "child escaped": _child_escaped,
    "child with memory": _child_with_memory,
    "fork returns": _fork_returns,
    "change directory": _change_directory,
    "replace handlers": _replace_handlers,
    "leave memory": _leave_memory,
}
