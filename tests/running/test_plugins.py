"""Plugins that suites bring along, alone and together: each test ends as under plain pytest and counts once."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from ..parity.checkout import Checkout, check_parity

pytestmark = pytest.mark.plugins

# What to import, what pytest loads, and what is written for it; a plugin that is absent skips its tests.
_FILES = {
    "timeout": (
        "pytest_timeout",
        """
        import pytest, time
        @pytest.mark.timeout(0.2)
        def test_marked(): time.sleep(20)
        @pytest.mark.timeout(5, method="signal")
        def test_quick(): pass
        def test_after(): pass
        """,
    ),
    "rerun": (
        "pytest_rerunfailures",
        """
        import pytest
        tries = []
        @pytest.fixture(scope="module")
        def shared(): return object()
        @pytest.fixture
        def shaky():
            tries.append("setup")
            assert len(tries) % 4 == 2
        @pytest.mark.flaky(reruns=3)
        def test_at_last(shared):
            tries.append("call")
            assert tries.count("call") == 3
        @pytest.mark.flaky(reruns=1)
        def test_never(shared): assert 0
        @pytest.mark.flaky(reruns=3)
        def test_setup(shaky): pass
        @pytest.mark.flaky(reruns=2)
        def test_skips(): pytest.skip("tries: 1")
        """,
    ),
    "randomly": (
        "pytest_randomly",
        """
        import pytest, random
        def test_seed(): pytest.skip(str(random.random()))  # the reason is compared
        def test_other(): pytest.skip(str(random.random()))
        @pytest.mark.parametrize("x", range(5))
        def test_param(x): pass
        class TestIt:
            def test_one(self): pass
            def test_two(self): assert 0
        """,
    ),
    "asyncio": (
        "pytest_asyncio.plugin",
        """
        import asyncio, pytest, pytest_asyncio
        @pytest_asyncio.fixture(loop_scope="session", scope="session")
        async def server():
            yield asyncio.get_running_loop()
            await asyncio.sleep(0)
        @pytest_asyncio.fixture(loop_scope="module", scope="module")
        async def client(): yield asyncio.get_running_loop()
        @pytest.mark.asyncio(loop_scope="session")
        async def test_session(server): assert asyncio.get_running_loop() is server
        @pytest.mark.asyncio(loop_scope="module")
        async def test_module(client): assert asyncio.get_running_loop() is client
        @pytest.mark.asyncio
        async def test_fails(): assert 0
        """,
    ),
    "anyio": (
        "anyio",
        """
        import pytest
        @pytest.fixture(scope="module", params=["asyncio"])
        def anyio_backend(request): return request.param
        @pytest.fixture(scope="module")
        async def value(anyio_backend): yield 3
        @pytest.mark.anyio
        async def test_value(value): assert value == 3
        @pytest.mark.anyio
        async def test_fails(): assert 0
        """,
    ),
    "subtests": (
        "pytest_subtests.plugin",
        """
        import pytest, unittest
        def test_good(subtests):
            for i in range(3):
                with subtests.test(i=i): pass
        def test_bad(subtests):
            for i in range(3):
                with subtests.test(msg="one", i=i): assert i != 1
        def test_skips(subtests):
            for i in range(3):
                with subtests.test(i=i):
                    if i == 1: pytest.skip("one")
        @pytest.mark.xfail(reason="known")
        def test_xfail(subtests):
            with subtests.test(): pass
            assert 0
        class TestUnit(unittest.TestCase):
            def test_good(self):
                for i in range(2):
                    with self.subTest(i=i): pass
            def test_bad(self):
                for i in range(2):
                    with self.subTest(i=i): self.assertEqual(i, 0)
            def test_skips(self):
                for i in range(2):
                    with self.subTest(i=i): self.skipTest("no")
        """,
    ),
    "forked": (
        "pytest_forked",
        """
        import os, pytest
        @pytest.fixture(scope="module")
        def shared(): return os.getpid()
        @pytest.mark.forked
        def test_own_process(): pass
        @pytest.mark.forked
        def test_crash(): os._exit(3)
        @pytest.mark.forked
        def test_fails(): assert 0
        def test_after(shared): assert shared == os.getpid()
        """,
    ),
    "xdist": (
        "xdist.plugin",
        """
        import pytest
        @pytest.mark.xdist_group("one")
        def test_one(): pass
        @pytest.mark.xdist_group("two")
        def test_two(): assert 0
        def test_id(worker_id): assert worker_id == "master"
        """,
    ),
    "split": ("pytest_split.plugin", "def test_one(): pass\ndef test_two(): assert 0\ndef test_three(): pass\n"),
    "repeat": ("pytest_repeat", "import pytest\n@pytest.mark.repeat(3)\ndef test_one(): pass\n"),
    "order": (
        "pytest_order",
        """
        import pytest
        seen = []
        @pytest.mark.order(2)
        def test_second(): assert seen == [1]; seen.append(2)
        @pytest.mark.order(1)
        def test_first(): assert seen == []; seen.append(1)
        """,
    ),
}
# One test of each that ends so only if the plugin does its work.
_TELLING = {
    "timeout": ("test_marked", "failed"),
    "rerun": ("test_at_last", "passed"),
    "randomly": ("test_seed", "skipped"),
    "asyncio": ("test_session", "passed"),
    "anyio": ("test_value[asyncio]", "passed"),
    "subtests": ("test_good", "passed"),
    "forked": ("test_crash", "failed"),
    "xdist": ("test_id", "passed"),
    "split": ("test_one", "passed"),
    "repeat": ("test_one[3-3]", "passed"),
    "order": ("test_second", "passed"),
}
_XDIST = ("-n", "auto", "--dist", "loadgroup")
_SPLIT = ("--splits", "3", "--group", "2")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "checkout")
    made.write("pytest.ini", "[pytest]\nmarkers = flaky\n")
    return made


def _need(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            pytest.skip(f"{module} is not installed here: nox -s plugins")


def _write(checkout: Checkout, name: str) -> None:
    for number in (1, 2):  # the second file meets a session in which the first has run
        checkout.write(f"test_{name}_{number}.py", _FILES[name][1])


@pytest.mark.parametrize("name", list(_FILES))
def test_a_plugin_alone_changes_no_outcome(checkout: Checkout, name: str) -> None:
    module = _FILES[name][0]
    if name == "subtests" and pytest.version_tuple >= (9,):
        loaded = []  # pytest's own
    else:
        _need(module)
        loaded = ["-p", "anyio.pytest_plugin" if name == "anyio" else module]
    checkout.environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    _write(checkout, name)
    given = {"xdist": _XDIST, "split": _SPLIT, "randomly": ("--randomly-seed=7",)}
    neutral = {"xdist": ("-n", "0"), "split": ("--splits", "1", "--group", "1")}
    ran = check_parity(checkout, *loaded, *given.get(name, ()), only_plain=neutral.get(name, ()))
    assert ran.workers() == 1
    test, outcome = _TELLING[name]
    assert ran.outcomes[f"test_{name}_2.py::{test}"][0] == outcome


def test_all_plugins_together_change_no_outcome(checkout: Checkout) -> None:
    names = [name for name in _FILES if name not in ("order", "repeat")]
    _need(*(_FILES[name][0] for name in names if name != "subtests" or pytest.version_tuple < (9,)))
    for name in names:
        _write(checkout, name)
    checkout.write("pytest.ini", "[pytest]\nmarkers = flaky\naddopts = -n auto --dist loadfile\n")
    arguments = ["--timeout=60", "--randomly-seed=7", *_SPLIT, "--reruns-delay=0", "--session-timeout=1000"]
    ran = check_parity(checkout, *arguments, only_plain=("-n", "0", "--splits", "1", "--group", "1"), gpus=2, workers=2)
    assert ran.workers() <= 2
    told = {(node_id.partition("::")[2], outcome) for node_id, (outcome, _) in ran.outcomes.items()}
    assert {_TELLING[name] for name in names} <= told


def test_coverage_has_a_data_file_for_each_worker_and_combines(checkout: Checkout) -> None:
    _need("pytest_cov")
    checkout.write("pytest.ini", "[pytest]\naddopts = --cov=lib --cov-report=xml --cov-fail-under=100\n")
    checkout.write("lib.py", "def f(x):\n    if x:\n        return 1\n    return 2\ndef g():\n    return 3\n")
    checkout.write("test_a.py", "import lib\ndef test_a(): assert lib.f(1) == 1")
    checkout.write(
        "test_b.py", "import lib, pytest\n@pytest.mark.gpu(mode='isolated', gpus=1)\ndef test_b(): assert lib.f(0) == 2"
    )
    ran = checkout.sharded("--import-mode=append", gpus=1)
    assert ran.code == 0  # no worker covers everything: the whole run may
    assert ran.workers() == 2
    assert "--cov-fail-under" in ran.output
    assert not (checkout.root / "coverage.xml").exists()
    assert sorted(path.name for path in checkout.root.glob(".coverage*")) == [
        ".coverage.shard-01.0.w1",
        ".coverage.shard-01.0.w2",
    ]
    command = [sys.executable, "-m", "coverage"]
    subprocess.run([*command, "combine"], cwd=checkout.root, check=True)
    report = subprocess.run([*command, "report"], cwd=checkout.root, check=True, capture_output=True, text=True).stdout
    assert report.split()[-4:] == ["TOTAL", "6", "1", "83%"]  # g() alone is not covered


def test_a_timeout_that_ends_the_process_costs_one_test(checkout: Checkout) -> None:
    _need("pytest_timeout")
    checkout.write(
        "test_a.py",
        """
        import pytest, time
        def test_before(): pass
        @pytest.mark.timeout(0.3, method="thread")
        def test_hangs(): time.sleep(60)
        def test_after(): pass
        """,
    )
    ran = checkout.sharded("--session-timeout=0.01")
    assert {name: outcome for name, (outcome, _) in ran.outcomes.items()} == {
        "test_a.py::test_before": "passed",
        "test_a.py::test_hangs": "timed_out",
        "test_a.py::test_after": "passed",
    }
    assert "test_a.py" in ran.tests["test_a.py::test_hangs"]["detail"]  # pytest-timeout's stacks
