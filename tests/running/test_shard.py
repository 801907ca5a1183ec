from __future__ import annotations

import pytest

from .harness import Suite

pytestmark = pytest.mark.versions


def test_each_test_gets_its_one_outcome(suite: Suite) -> None:
    suite.write(
        "test_a.py",
        """
        import pytest
        def test_pass(): pass
        def test_fail(): assert 1 == 2
        def test_skip(): pytest.skip("no reason")
        @pytest.mark.xfail(reason="known")
        def test_xfail(): assert 0
        @pytest.mark.xfail
        def test_xpass(): pass
        @pytest.fixture
        def broken(): raise RuntimeError("setup")
        def test_error(broken): pass
        @pytest.fixture
        def late():
            yield
            raise RuntimeError("teardown")
        def test_late(late): pass
        def test_strange(nowhere): pass
        """,
    )
    names = [
        "test_pass",
        "test_fail",
        "test_skip",
        "test_xfail",
        "test_xpass",
        "test_error",
        "test_late",
        "test_strange",
    ]
    suite.plan(("test_a.py", names))
    ran = suite.run()
    assert ran.code == 1
    assert list(ran.outcomes.values()) == ["passed", "failed", "skipped", "xfailed", "xpassed"] + 3 * ["error"]
    assert ran.tests["test_skip"]["reason"] == "no reason"
    assert ran.tests["test_strange"]["reason"] == "fixture 'nowhere' not found"
    assert "assert 1 == 2" in ran.tests["test_fail"]["detail"]
