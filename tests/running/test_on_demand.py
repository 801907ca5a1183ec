"""Files are collected one by one in a living session: nothing that pytest ties to a collection may get lost between."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..parity.checkout import Checkout, check_parity

pytestmark = pytest.mark.versions


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "checkout")
    # Where they are installed: order decides which test is a file's last, and one warns of its own defaults.
    made.write("pytest.ini", "[pytest]\naddopts = -p no:randomly -p no:asyncio\n")
    return made


def _write_tree(checkout: Checkout) -> None:
    """Conftests at each level, packages and plain folders, the same basename twice."""
    checkout.write(
        "conftest.py",
        """
        import pytest
        from pathlib import Path
        LOG = Path(__file__).with_name("log")
        def log(text):
            with LOG.open("a") as file:
                print(text, file=file)
        def both(name):
            log(f"{name} up")
            yield name
            log(f"{name} down")
        @pytest.fixture(scope="session", autouse=True)
        def everywhere(): yield from both("session")
        @pytest.fixture(scope="session", params=["p", "q"])
        def param(request): yield from both(f"param {request.param}")
        @pytest.fixture(scope="module", autouse=True)
        def each_module(request): yield from both(f"module {request.module.__file__[-9:]}")
        @pytest.fixture(scope="class", autouse=True)
        def each_class(): yield
        @pytest.fixture(autouse=True)
        def each_test(): yield
        @pytest.fixture
        def level(): return "root"
        """,
    )
    for folder, package in (("plain", False), ("pack", True), ("pack/inner", True)):
        name = folder.replace("/", "_")
        if package:
            checkout.write(f"{folder}/__init__.py", "ready = []\ndef setup_module(): ready.append(1)")
        checkout.write(
            f"{folder}/conftest.py",
            f"""
            import pytest
            @pytest.fixture
            def level(level): return level + "/{folder}"
            @pytest.fixture(scope="session")
            def {name}_session(everywhere):
                {name}_session.count = getattr({name}_session, "count", 0) + 1
                from pathlib import Path
                with Path(__file__).parents[{folder.count("/") + 1}].joinpath("log").open("a") as file:
                    print("{name}_session", file=file)
            @pytest.fixture(scope="package", autouse=True)
            def whole_package(): yield "{folder}"
            """,
        )
        for file in ("test_a.py", "test_b.py") if package else ("test_c.py", "test_d.py"):
            checkout.write(
                f"{folder}/{file}",
                f"""
                import pytest
                @pytest.fixture(scope="module")
                def own(): return object()
                def test_level(level, own): assert level == {"root/" + folder!r} or {folder == "pack/inner"}
                def test_package():
                    import sys
                    assert {not package} or sys.modules[{folder.replace("/", ".")!r}].ready  # its setup_module has run
                def test_inner(level): assert level.startswith("root/{folder.split("/")[0]}")
                def test_session({name}_session, whole_package): assert whole_package == {folder!r}
                def test_param(param): assert param[-1] in "pq"
                @pytest.mark.usefixtures("{name}_session")
                class TestIt:
                    def test_own(self, own, level): assert level.endswith("{folder}")
                """,
            )


def test_fixtures_of_conftests_serve_each_file(checkout: Checkout) -> None:
    _write_tree(checkout)
    ran = check_parity(checkout)
    assert ran.code == 0
    assert ran.workers() == 1


@pytest.mark.parametrize(
    "args",
    [
        ["plain", "pack/inner"],  # both conftests are loaded at the start
        ["pack/test_b.py::TestIt", "pack/test_b.py::test_param", "plain/test_c.py", "pack/inner"],
        ["--pyargs", "pack.test_b", "pack.inner.test_a::test_session"],
    ],
)
def test_arguments_that_name_parts_give_the_same_items(checkout: Checkout, args: list[str]) -> None:
    _write_tree(checkout)
    checkout.environment["PYTHONPATH"] = str(checkout.root)
    check_parity(checkout, *args)


def test_session_fixtures_live_as_long_as_the_worker_and_module_fixtures_as_their_file(checkout: Checkout) -> None:
    _write_tree(checkout)
    ran = checkout.sharded("plain", "pack/test_a.py")
    assert ran.code == 0
    log = checkout.read("log")
    assert log[0] == "session up"
    assert "session down" in log[-2:]  # pytest 7 ends the other session fixture after it
    assert log.count("session up") == 1
    assert log.count("plain_session") == 1
    modules = [line for line in log if line.startswith("module")]
    assert len(modules) == 6
    assert all(up.replace("up", "down") == down for up, down in zip(modules[::2], modules[1::2], strict=True))


def test_node_ids_outside_rootdir_are_those_that_were_collected(checkout: Checkout) -> None:
    checkout.write("lib/pack/__init__.py", "")
    checkout.write("lib/pack/tests/__init__.py", "")
    checkout.write("lib/pack/tests/test_a.py", "def test_a(): pass")
    checkout.write("lib/pack/tests/test_b.py", "def test_b(): assert 0")
    checkout.write("work/pytest.ini", "[pytest]\n")
    checkout.environment["PYTHONPATH"] = str(checkout.root / "lib")
    check_parity(checkout, "--pyargs", "pack.tests", cwd="work")


def test_a_helper_that_is_only_searched_for_doctests_is_no_test_module(checkout: Checkout) -> None:
    checkout.write(
        "lib.py",
        """
        def test_connection(host):
            '''
            >>> test_connection("a")
            True
            >>> test_connection("b")
            False
            '''
            return True
        def add(a, b):
            '''
            >>> add(1, 2)
            3
            '''
            return a + b
        """,
    )
    checkout.write("test_a.py", "def test_a():\n    '''\n    >>> 1\n    1\n    '''")
    checkout.write("guide.txt", ">>> 1 + 1\n2\n")
    checkout.write("notes.rst", ">>> 1 + 1\n3\n")
    ran = check_parity(checkout, "--doctest-modules", "--doctest-glob=*.txt", ".")
    assert len(ran.tests) == 5


def test_assertions_are_rewritten_wherever_pytest_does_it(checkout: Checkout) -> None:
    checkout.write("conftest.py", "import pytest\npytest.register_assert_rewrite('helper')")
    checkout.write("helper.py", "def check(a, b): assert a == b")
    checkout.write("test_a.py", "from helper import check\ndef test_a(): check([1, 2], [1, 3])")
    checkout.write("odd_name.py", "def test_odd():\n    x = [1, 2]\n    assert x == [1, 3]")
    ran = checkout.sharded("test_a.py", "odd_name.py")
    assert len(ran.tests) == 2
    for entry in ran.tests.values():
        assert "At index 1 diff: 2 != 3" in entry["detail"]


def test_a_plugin_that_a_test_module_names_is_there_from_then_on(checkout: Checkout) -> None:
    checkout.write("helping.py", "import pytest\n@pytest.fixture(scope='session')\ndef helping(): return 3")
    checkout.write("test_a.py", "pytest_plugins = ['helping']\ndef test_a(helping): assert helping == 3")
    checkout.write("test_b.py", "pytest_plugins = ['helping']\ndef test_b(helping): assert helping == 3")
    check_parity(checkout)


def test_hooks_of_conftests_act_on_each_file(checkout: Checkout) -> None:
    checkout.write(
        "conftest.py",
        """
        import pytest
        def pytest_collection(session): session.config.seen = True
        def pytest_sessionstart(session): session.config.started = "started"
        def pytest_sessionfinish(session): open("finished", "a").write("x")
        def pytest_generate_tests(metafunc):
            if "number" in metafunc.fixturenames:
                metafunc.parametrize("number", [2, 1])
        def pytest_collection_modifyitems(session, config, items):
            config.hook.pytest_deselected(items=[item for item in items if item.name == "test_gone"])
            items[:] = sorted((item for item in items if item.name != "test_gone"), key=lambda item: item.name)
            for item in items:
                if item.name == "test_marked":
                    item.add_marker(pytest.mark.skip(reason="by hook"))
        def pytest_runtest_setup(item):
            if "refused" in item.name:
                pytest.skip("refused by hook")
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(item, call):
            outcome = yield
            if item.name == "test_turned" and call.when == "call":
                outcome.get_result().outcome = "passed"
        """,
    )
    text = """
        def test_number(number, request):
            assert number and request.config.seen and request.config.started
        def test_gone(): assert 0
        def test_marked(): assert 0
        def test_refused(): assert 0
        def test_turned(): assert 0
    """
    checkout.write("test_a.py", text)
    checkout.write("test_b.py", text)
    check_parity(checkout)
    assert checkout.read("finished") == ["xxx"]  # by plain pytest, by collecting, by the one worker
