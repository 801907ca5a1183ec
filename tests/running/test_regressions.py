"""What chaos found: each test is the smallest case of a fault that was once not contained."""

from __future__ import annotations

import pytest

from .harness import Suite

pytestmark = pytest.mark.versions


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
