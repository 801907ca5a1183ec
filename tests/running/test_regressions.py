"""What chaos found: each test is the smallest case of a fault that was once not contained."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from .harness import Suite

pytestmark = pytest.mark.versions


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_bytes()):
        assert time.monotonic() < deadline, f"{path} does not come"
        time.sleep(0.02)


def test_a_worker_whose_hang_a_signal_woke_starts_no_other_test(suite: Suite) -> None:
    suite.write(
        "test_a.py",
        """
        import ctypes, pathlib, signal
        def test_hang():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that only SIGKILL ends it, after the grace
            ctypes.PyDLL(None).sleep(999)
        def test_after():
            with open(pathlib.Path(__file__).with_name("ran"), "a") as file:
                file.write("x")
        """,
    )
    suite.plan(("test_a.py", ["test_hang", "test_after"]))
    assert suite.run().outcomes == {"test_hang": "timed_out", "test_after": "passed"}
    assert (suite.root / "ran").read_text() == "x"


def test_a_worker_that_was_ending_when_the_container_was_stopped_fails_no_test(suite: Suite) -> None:
    suite.settings = {"end_timeout_seconds": 60.0}
    suite.write(
        "test_a.py",
        """
        import atexit, os, pathlib, time
        def linger():
            pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
            time.sleep(300)
        def test_one(): atexit.register(linger)
        """,
    )
    suite.plan(("test_a.py", ["test_one"]))
    process = suite.start()
    wait_for(suite.root / "pid")
    # As SIGTERM reaches a container's processes: in any order, the worker first.
    os.kill(int((suite.root / "pid").read_text()), signal.SIGTERM)
    time.sleep(0.2)
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 75, output
    assert suite.run().outcomes == {"test_one": "passed"}


@pytest.mark.parametrize("then", ["pass", "raise AssertionError('the stop did it')"], ids=["passes", "fails"])
def test_a_test_that_ends_while_the_shard_stops_passes_or_runs_again(suite: Suite, then: str) -> None:
    suite.settings = {"min_timeout_seconds": 60.0, "kill_grace_seconds": 10.0}
    suite.write(
        "test_a.py",
        f"""
        import os, pathlib, signal, time
        came = pathlib.Path(__file__).with_name("came")
        def test_slow():
            if came.exists():
                return
            stopped = []
            signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
            came.write_text("once")
            while not stopped:
                time.sleep(0.01)
            {then}
        def test_after():
            with open(came.with_name("after"), "a") as file:
                file.write("x")
        """,
    )
    suite.plan(("test_a.py", ["test_slow", "test_after"]))
    process = suite.start()
    wait_for(suite.root / "came")
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 75, output
    ran = suite.run()
    assert ran.outcomes == {"test_slow": "passed", "test_after": "passed"}
    assert "earlier" not in ran.tests["test_slow"]
    assert len(ran.events("start", attempt=1)) == (1 if then == "pass" else 2)
    assert (suite.root / "after").read_text() == "x"
