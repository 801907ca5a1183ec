"""The user's own options, ini keys, hooks and fixtures hold in shards: each test ends as under plain pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..parity.checkout import Checkout, check_parity

pytestmark = pytest.mark.versions


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "checkout")
    # Where they are installed: order decides which test is a file's last, and one warns of its own defaults.
    made.write("pytest.ini", "[pytest]\naddopts = -p no:randomly -p no:asyncio\nmarkers = slow: takes long\n")
    return made


def _write_suite(checkout: Checkout) -> None:
    for name in ("a", "b"):
        checkout.write(
            f"test_{name}.py",
            """
            import os, pytest, sys
            def test_pass(capsys): print("seen"); assert capsys.readouterr().out == "seen\\n"
            def test_fail(): assert 1 == 2
            def test_skip(): pytest.skip("no reason")
            @pytest.mark.skipif(os.sep == "/", reason="on POSIX")
            def test_skipif(): pass
            @pytest.mark.xfail(reason="known")
            def test_xfail(): assert 0
            @pytest.mark.xfail(reason="gone", strict=False)
            def test_xpass(): pass
            @pytest.mark.slow
            @pytest.mark.gpu
            def test_slow(tmp_path): assert not list(tmp_path.iterdir())
            @pytest.mark.parametrize("x", [1, "a b", "::", "ü"])
            def test_param(x): assert x != "a b"
            """,
        )


# The first four pick tests by chance or stop early, which shards do not; without a terminal pytest has no categories to
# compare, and our marker is unknown to it, which -W error minds.
_NOT_IN_PLAIN = ("-x", "--maxfail=1", "--lf", "--sw", "-pno:terminal", "-Werror", "--strict-markers")


@pytest.mark.parametrize(
    "args",
    [
        "-p no:cacheprovider -pno:terminal -Werror -s",
        "--strict-config --strict-markers -p no:cacheprovider -o xfail_strict=true -o console_output_style=count",
        "--capture=sys --import-mode=importlib -k not(fail) --basetemp=BASE",
        "--import-mode=append -m not(slow) --deselect=test_a.py::test_fail -x --maxfail=1 --lf --sw --no-header",
        "--import-mode=prepend test_b.py::test_param test_a.py::test_slow test_b.py::test_xfail -vv --durations=3",
        "-q --tb=line -ra --log-cli-level=DEBUG -o log_cli=true --junitxml=out.xml --runxfail",
    ],
)
def test_options_hold(checkout: Checkout, args: str) -> None:
    _write_suite(checkout)
    words = [
        word.replace("BASE", str(checkout.root / "base")).replace("(", " ").replace(")", "") for word in args.split()
    ]
    plain = checkout.plain(*(word for word in words if word not in _NOT_IN_PLAIN))
    ran = checkout.sharded(*words)
    assert ran.outcomes == plain
    assert ran.code == (1 if any(outcome in ("failed", "error") for outcome, _ in plain.values()) else 0)


def test_fixtures_of_each_scope_and_style_end_as_in_plain_pytest(checkout: Checkout) -> None:
    checkout.write(
        "test_a.py",
        """
        import pytest, unittest
        @pytest.fixture(scope="module")
        def broken_at_end():
            yield
            raise RuntimeError("module teardown")
        def test_first(broken_at_end): pass
        def test_last(): pass  # gets the module's error
        """,
    )
    checkout.write(
        "test_b.py",
        """
        import pytest, unittest
        def setup_module(module): module.ready = True
        def teardown_module(module): raise RuntimeError("xunit teardown")
        class TestXunit:
            def setup_method(self, method): self.x = ready
            def teardown_class(cls): raise RuntimeError("class teardown")
            def test_x(self): assert self.x
            def test_y(self): pass
        class TestUnit(unittest.TestCase):
            @classmethod
            def setUpClass(cls): cls.x = 1
            def test_one(self): self.assertEqual(self.x, 1)
            def test_two(self): self.fail("no")
            @unittest.skip("not now")
            def test_three(self): pass
            @unittest.expectedFailure
            def test_four(self): self.fail("known")
        class TestBroken(unittest.TestCase):
            @classmethod
            def setUpClass(cls): raise RuntimeError("never up")
            def test_one(self): pass
            def test_two(self): pass
        def test_last(): pass
        """,
    )
    checkout.write(
        "test_c.py",
        """
        import pytest
        pytest.skip("not here", allow_module_level=True)
        def test_never(): pass
        """,
    )
    checkout.write("test_d.py", "import pytest\npytest.importorskip('no_such_module')\ndef test_never(): pass")
    checkout.write(
        "test_e.py",
        """
        import pytest
        def setup_module(): raise RuntimeError("xunit setup")
        def test_one(): pass
        def test_two(): pass
        """,
    )
    ran = check_parity(checkout)
    assert ran.tests["test_a.py::test_last"]["outcome"] == "error"
    assert "module teardown" in ran.tests["test_a.py::test_last"]["detail"]


@pytest.mark.parametrize("how", ["raise RuntimeError('late')", "pytest.fail('late')", "raise SystemExit('late')"])
def test_a_session_fixture_that_fails_at_the_end_is_an_error_of_the_last_test(checkout: Checkout, how: str) -> None:
    checkout.write(
        "conftest.py",
        f"""
        import pytest
        @pytest.fixture(scope="session", autouse=True)
        def broken():
            yield
            {how}
        """,
    )
    checkout.write("test_a.py", "def test_a(): pass\ndef test_b(): pass")
    ran = check_parity(checkout)
    assert "late" in ran.tests["test_a.py::test_b"]["detail"]


@pytest.mark.parametrize(
    "body", ["raise RuntimeError('leak')", "session.exitstatus = 1", "__import__('pytest').exit('leak', returncode=3)"]
)
def test_a_session_that_a_hook_fails_is_red_though_its_tests_passed(checkout: Checkout, body: str) -> None:
    checkout.write(
        "conftest.py",
        f"""
        import pytest, os
        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(session):
            if session.items and not session.config.option.collectonly:
                {body}
        """,
    )
    checkout.write("test_a.py", "def test_a(): pass")
    ran = checkout.sharded()
    assert ran.code == 1
    assert ran.tests["test_a.py::test_a"]["outcome"] == "error"
    assert "exit status" in ran.tests["test_a.py::test_a"]["reason"]


def test_a_warning_at_import_is_an_error_of_collecting_where_the_user_says_so(checkout: Checkout) -> None:
    checkout.write("pytest.ini", "[pytest]\nfilterwarnings = error\n")
    checkout.write("test_a.py", "import warnings\nwarnings.warn('old')\ndef test_a(): pass")
    ran = checkout.sharded()
    assert ran.code == 13
    assert "test_a.py" in ran.output
    assert "UserWarning: old" in ran.output


def test_a_warning_at_import_in_the_worker_alone_makes_its_tests_missing(checkout: Checkout) -> None:
    checkout.write("pytest.ini", "[pytest]\nfilterwarnings = error\n")
    checkout.write("test_a.py", "def test_a(): pass")
    checkout.write(
        "test_b.py",
        "import os, warnings\nif 'SHARDLIB_WORKER' in os.environ: warnings.warn('late')\ndef test_b(): pass",
    )
    ran = checkout.sharded()
    assert ran.code == 1
    assert ran.outcomes["test_a.py::test_a"] == ("passed", "")
    missing = ran.tests["test_b.py::test_b"]
    assert missing["outcome"] == "missing"
    assert "UserWarning: late" in missing["detail"]


def test_a_worker_that_gives_up_a_file_still_answers_for_the_end_of_its_session(checkout: Checkout) -> None:
    checkout.write(
        "conftest.py",
        """
        import pytest
        @pytest.fixture(scope="session")
        def broken():
            yield
            raise RuntimeError("late")
        """,
    )
    checkout.write("test_a.py", "import sys\nsys.used = True\ndef test_a(broken): pass")
    checkout.write("test_b.py", "import sys\nif not hasattr(sys, 'used'):\n    def test_b(): pass")
    # Collected in another order, test_b.py has its test; in the worker it comes after test_a.py, which is heavier.
    (checkout.root.parent / "durations.json").write_text('{"test_a.py::test_a": 9, "test_b.py::test_b": 1}', "ascii")
    ran = checkout.sharded("test_b.py", "test_a.py", durations=checkout.root.parent / "durations.json")
    assert ran.workers() == 2
    assert ran.outcomes == {"test_a.py::test_a": ("error", ""), "test_b.py::test_b": ("passed", "")}
    assert "late" in ran.tests["test_a.py::test_a"]["detail"]
