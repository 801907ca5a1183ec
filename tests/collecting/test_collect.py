from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardlib.collecting import document, plugin
from shardlib.errors import CollectError, SettingsError, UsageError
from shardlib.model import Mode

from .conftest import Checkout, ids

pytestmark = pytest.mark.versions

TINY = "def test_a(): pass\n"
BY_DEVICES = """
    import os, pytest
    DEVICES = range(len([d for d in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if d]))
"""


def test_each_test_comes_with_mode_gpus_file_and_parameters(checkout: Checkout) -> None:
    checkout.write(
        "tests/test_a.py",
        """
        import pytest
        pytestmark = pytest.mark.gpu(gpus=2)
        def test_module(): pass
        @pytest.mark.gpu(mode="isolated")
        class TestC:
            def test_class(self): pass
            @pytest.mark.gpu(mode="cpu")
            def test_own(self): pass
        @pytest.mark.parametrize("x", [1, "a b"])
        def test_param(x): pass
        """,
    )
    collection = checkout.collect("-p", "no:randomly", gpus=2)
    assert [(test.id, test.mode, test.gpus) for test in collection.tests] == [
        ("tests/test_a.py::test_module", Mode.CONCURRENT, 2),
        ("tests/test_a.py::TestC::test_class", Mode.ISOLATED, 2),
        ("tests/test_a.py::TestC::test_own", Mode.CPU, 0),
        ("tests/test_a.py::test_param[1]", Mode.CONCURRENT, 2),
        ("tests/test_a.py::test_param[a b]", Mode.CONCURRENT, 2),
    ]
    assert {test.file for test in collection.tests} == {"tests/test_a.py"}
    assert collection.tests[-1].params == (("x", "'a b'"),)
    assert collection.pytest.rootdir == str(checkout.root)
    assert collection.pytest.inifile == str(checkout.root / "pytest.ini")
    assert collection.pytest.version == pytest.__version__
    assert collection.pytest.hash_seed == "0"
    assert collection.notes == ()


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "a[b]",
        "a::b",
        "'q' \"q\"",
        "a\nb\r\tc",
        "zażółć ☃ 🙈",
        "${{x}}",
        "{{=1}}",
        "../..",
        "x" * 10_000,
        "\\",
        "\x1b[31m",
    ],
    ids=range(12),
)
def test_any_node_id_is_kept_through_collection_and_its_file(checkout: Checkout, name: str) -> None:
    checkout.write(
        "test_a.py",
        f"""
        import pytest
        @pytest.mark.parametrize("x", [1, 2], ids=[{name!r}, "other"])
        def test_it(x): pass
        """,
    )
    collection = checkout.collect("-p", "no:randomly")
    listed = subprocess.run(
        [sys.executable, "-c", _LISTER], check=True, capture_output=True, env={**os.environ, "PYTEST_ADDOPTS": ""}
    )
    assert listed.stderr.decode("unicode-escape").split("\0")[:-1] == ids(collection)
    path = checkout.root / "collect.json"
    document.write(collection, path)
    assert document.load(path) == collection


# Plain pytest's own view of the ids, through another channel than ours.
_LISTER = """
import sys, pytest
class P:
    def pytest_collection_finish(self, session):
        for item in session.items:
            sys.__stderr__.write(item.nodeid.encode("unicode-escape").decode() + "\\0")
sys.stdout = None
pytest.main(["-s", "--collect-only", "-p", "no:terminal", "-p", "no:randomly"], plugins=[P()])
"""


def test_tests_are_collected_with_as_many_devices_as_their_workers_will_see(checkout: Checkout) -> None:
    checkout.write(
        "test_a.py",
        BY_DEVICES
        + """
    @pytest.mark.parametrize("d", DEVICES)
    def test_one(d): pass
    @pytest.mark.gpu(gpus=2)
    @pytest.mark.parametrize("d", DEVICES)
    def test_two(d): pass
    @pytest.mark.gpu(mode="sequential")
    @pytest.mark.parametrize("d", DEVICES)
    def test_all(d): pass
    @pytest.mark.gpu(mode="cpu")
    @pytest.mark.parametrize("d", DEVICES or ["none"])
    def test_cpu(d): pass
    """,
    )
    collection = checkout.collect("-p", "no:randomly", gpus=3)
    expected = ["one[0]", "two[0]", "two[1]", "all[0]", "all[1]", "all[2]", "cpu[none]"]
    assert sorted(ids(collection)) == sorted(f"test_a.py::test_{name}" for name in expected)
    (note,) = collection.notes
    assert note.startswith("6 tests exist with a node's devices")  # one[1], one[2], two[2], cpu[0..2]
    assert "test_a.py::test_one[1]" in note


def test_order_is_that_of_the_widest_pass_with_the_rest_where_it_stands(checkout: Checkout) -> None:
    checkout.write(
        "test_a.py",
        BY_DEVICES
        + """
    def test_a(): pass
    if len(DEVICES) == 1:
        def test_b(): pass
    @pytest.mark.gpu(mode="sequential")
    def test_c(): pass
    def test_d(): pass
    """,
    )
    collection = checkout.collect("-p", "no:randomly", gpus=2)
    assert ids(collection) == [f"test_a.py::test_{name}" for name in "abcd"]


def test_a_module_that_skips_itself_on_few_devices_is_found_and_noted(checkout: Checkout) -> None:
    skip = 'if len(DEVICES) < 2: pytest.skip("needs two", allow_module_level=True)\n'
    checkout.write(
        "test_a.py", BY_DEVICES + f"    {skip}    pytestmark = pytest.mark.gpu(gpus=2)\n    def test_x(): pass\n"
    )
    checkout.write("test_b.py", TINY)
    collection = checkout.collect(gpus=4)
    assert set(ids(collection)) == {"test_a.py::test_x", "test_b.py::test_a"}
    assert any(
        "test_a.py' skips itself with 1 visible devices" in note and "needs two" in note for note in collection.notes
    )


def test_collect_gpus_fixes_what_every_test_is_collected_with(checkout: Checkout) -> None:
    checkout.write("pyproject.toml", "[tool.shardlib]\ncollect_gpus = 3\n")
    checkout.write("test_a.py", BY_DEVICES + '    @pytest.mark.parametrize("d", DEVICES)\n    def test_one(d): pass\n')
    assert len(checkout.collect(gpus=None).tests) == 3


def test_the_settings_node_counts_even_if_the_rootdir_is_elsewhere(checkout: Checkout) -> None:
    checkout.write("pyproject.toml", "[tool.shardlib]\ngpus_per_node = 2\n")
    checkout.write("sub/test_a.py", "import pytest\n@pytest.mark.gpu(mode='sequential')\ndef test_a(): pass\n")
    checkout.patch.chdir(checkout.root / "sub")
    collection = checkout.collect(gpus=None)
    assert [test.gpus for test in collection.tests] == [2]
    assert ids(collection) == ["sub/test_a.py::test_a"]
    assert collection.pytest.cwd == str(checkout.root / "sub")


def test_a_marker_that_depends_on_the_devices_is_refused_by_name(checkout: Checkout) -> None:
    checkout.write(
        "test_a.py",
        BY_DEVICES + "    @pytest.mark.gpu(gpus=max(1, len(DEVICES)))\n    def test_x(): pass\n"
        "    @pytest.mark.gpu(gpus=1)\n    def test_y(): pass\n",
    )
    with pytest.raises(SettingsError, match=r"test_a\.py::test_x.*collect_gpus"):
        checkout.collect(gpus=2)


def test_the_devices_that_are_visible_already_are_the_ones_that_are_used(checkout: Checkout) -> None:
    checkout.write("test_a.py", 'import os\nassert os.environ["CUDA_VISIBLE_DEVICES"] == "5"\n' + TINY)
    assert len(checkout.collect(CUDA_VISIBLE_DEVICES="5,7").tests) == 1


def test_ids_from_a_set_are_the_same_every_time(checkout: Checkout) -> None:
    names = '{"a", "b", "c", "d", "e", "f"}'
    checkout.write("test_a.py", f"import pytest\n@pytest.mark.parametrize('x', {names})\ndef test_s(x): pass\n")

    def collected() -> list[str]:
        return ids(checkout.collect("-p", "no:randomly", hash_seed="random"))

    assert collected() == collected()
    assert checkout.collect(hash_seed="3").pytest.hash_seed == "3"


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("test_a.py", "import not_there\n", ["test_a.py", "not_there"]),
        ("test_a.py", "def test_(:\n", ["test_a.py", "SyntaxError"]),
        ("conftest.py", "import not_there\n", ["conftest.py", "not_there"]),
        ("conftest.py", "raise SystemExit(0)\n", ["pytest ended"]),
        ("test_a.py", "import os; os._exit(0)\n", ["pytest ended (status 0) without an answer"]),
        ("test_a.py", "import os; os.kill(os.getpid(), 9)\n", ["status -9"]),
        ("test_a.py", "import pytest; pytest.exit('enough')\n", ["enough"]),
        ("test_a.py", "def test_(missing): pass\n@nothing\ndef x(): pass\n", ["test_a.py", "nothing"]),
        (
            "conftest.py",
            "def pytest_collection_modifyitems(items): items.append(items[0])\n",
            ["test_b.py::test_a", "once"],
        ),
        ("conftest.py", "def pytest_collection_modifyitems(items): items.clear()\n", ["no tests"]),
        ("conftest.py", "def pytest_collection_modifyitems(items): 1 / 0\n", ["ZeroDivisionError"]),
    ],
)
def test_what_cannot_be_collected_is_red_by_name(checkout: Checkout, name: str, text: str, named: list[str]) -> None:
    checkout.write("test_b.py", TINY)
    checkout.write(name, text)
    with pytest.raises(CollectError) as caught:
        checkout.collect()
    for part in named:
        assert part in str(caught.value)


def test_every_collection_error_is_named_whatever_maxfail_says(checkout: Checkout) -> None:
    for name in ("test_a.py", "test_b.py"):
        checkout.write(name, "import not_there\n")
    with pytest.raises(CollectError) as caught:
        checkout.collect("-x", "--continue-on-collection-errors")
    assert "2 collection errors" in str(caught.value)
    assert "test_b.py" in str(caught.value)


@pytest.mark.parametrize(
    "args", [["-k", "nothing_so"], ["missing.py"], ["test_a.py::test_missing"], ["--no-such-option"]]
)
def test_arguments_that_select_nothing_are_red(checkout: Checkout, args: list[str]) -> None:
    checkout.write("test_a.py", TINY)
    with pytest.raises(CollectError):
        checkout.collect(*args)


def test_a_wrong_marker_is_refused_naming_the_test_and_the_choices(checkout: Checkout) -> None:
    checkout.write("test_a.py", "import pytest\n@pytest.mark.gpu(mode='isolatd')\ndef test_a(): pass\n")
    with pytest.raises(SettingsError, match=r"test_a\.py::test_a.*'isolatd'.*did you mean 'isolated'.*concurrent"):
        checkout.collect()


def test_a_wrong_setting_is_refused_with_its_line(checkout: Checkout) -> None:
    checkout.write("pyproject.toml", "[tool.shardlib]\n\nmarkr = 'x'\n")
    checkout.write("test_a.py", TINY)
    with pytest.raises(SettingsError, match=r"pyproject\.toml:3: tool\.shardlib\.markr"):
        checkout.collect()


def test_our_marker_is_known_to_strict_markers(checkout: Checkout) -> None:
    checkout.write("pytest.ini", "[pytest]\naddopts = --strict-markers\n")
    checkout.write("test_a.py", "import pytest\n@pytest.mark.gpu\ndef test_a(): pass\n")
    assert len(checkout.collect().tests) == 1


def test_selected_node_ids_and_expressions_hold(checkout: Checkout) -> None:
    checkout.write("test_a.py", "def test_one(): pass\ndef test_two(): pass\ndef test_three(): pass\n")
    assert ids(checkout.collect("test_a.py::test_two")) == ["test_a.py::test_two"]
    assert ids(checkout.collect("-k", "not two and not three")) == ["test_a.py::test_one"]
    assert len(checkout.collect("--deselect", "test_a.py::test_three").tests) == 2


def test_addopts_of_the_environment_become_recorded_arguments(checkout: Checkout) -> None:
    checkout.write("test_a.py", "def test_one(): pass\ndef test_two(): pass\n")
    collection = checkout.collect("test_a.py", PYTEST_ADDOPTS="-k 'not two'")
    assert ids(collection) == ["test_a.py::test_one"]
    assert collection.pytest.args == ("-k", "not two", "test_a.py")
    assert any("PYTEST_ADDOPTS" in note for note in collection.notes)
    with pytest.raises(UsageError, match="PYTEST_ADDOPTS"):
        checkout.collect(PYTEST_ADDOPTS="'open")


@pytest.mark.parametrize("args", [["-p", "no:terminal"], ["-p", "no:cacheprovider"], ["-q", "-q"], ["-vv"], ["-s"]])
def test_output_options_change_nothing(checkout: Checkout, args: list[str]) -> None:
    checkout.write("test_a.py", "print('noise' * 10)\n" + TINY)
    assert ids(checkout.collect(*args)) == ["test_a.py::test_a"]


def test_a_rootdir_below_and_a_file_outside_are_said_as_they_are(checkout: Checkout, tmp_path: Path) -> None:
    checkout.write("sub/pytest.ini", "[pytest]\n")
    checkout.write("sub/test_a.py", TINY)
    collection = checkout.collect("sub")
    assert collection.pytest.rootdir == str(checkout.root / "sub")
    assert collection.pytest.cwd == str(checkout.root)
    assert [test.file for test in collection.tests] == ["test_a.py"]
    outside = tmp_path / "elsewhere" / "test_o.py"
    outside.parent.mkdir()
    outside.write_text(TINY)
    assert [test.file for test in checkout.collect("--rootdir", ".", str(outside)).tests] == [outside.as_posix()]


def test_pyargs_find_an_installed_package(checkout: Checkout) -> None:
    checkout.write("lib/pkg/__init__.py", "")
    checkout.write("lib/pkg/test_p.py", TINY)
    lib = str(checkout.root / "lib")
    assert ids(checkout.collect("--pyargs", "pkg", "--rootdir", lib, PYTHONPATH=lib)) == ["pkg/test_p.py::test_a"]


def test_a_checkout_with_its_own_shardlib_keeps_it_and_we_keep_ours(checkout: Checkout) -> None:
    checkout.write("shardlib_check.py", "")
    checkout.write("conftest.py", "import sys\nassert all(path for path in sys.path)\n")
    checkout.write("shardlib/__init__.py", "raise RuntimeError('of the pull request')\n")
    checkout.write("test_a.py", TINY)
    assert len(checkout.collect(PYTHONPATH=str(checkout.root)).tests) == 1


def test_collecting_that_initialises_cuda_is_noted_by_file(checkout: Checkout) -> None:
    checkout.write(
        "torch.py",
        """
        class cuda:
            ready = False
            @classmethod
            def is_initialized(cls): return cls.ready
        """,
    )
    checkout.write("conftest.py", "import sys; sys.path.insert(0, '.')\n")
    checkout.write("test_a.py", TINY)
    checkout.write("test_b.py", "import torch\ntorch.cuda.ready = True\n" + TINY)
    (note,) = checkout.collect("-p", "no:randomly").notes
    assert "collecting test_b.py initialised CUDA" in note


def test_an_open_cuda_device_shows_any_librarys_initialisation(tmp_path: Path) -> None:
    (tmp_path / "5").symlink_to("/dev/nvidiactl")
    assert not plugin.has_cuda(tmp_path)
    (tmp_path / "6").symlink_to("/dev/nvidia-uvm")
    assert plugin.has_cuda(tmp_path)


def test_the_limit_of_pytest_timeout_is_told(checkout: Checkout) -> None:
    pytest.importorskip("pytest_timeout")
    checkout.write("pytest.ini", "[pytest]\ntimeout = 20\n")
    checkout.write(
        "test_a.py",
        """
        import pytest
        def test_ini(): pass
        @pytest.mark.timeout(7.5)
        def test_marker(): pass
        @pytest.mark.timeout(timeout=9, method="thread")
        def test_keyword(): pass
        @pytest.mark.timeout(0)
        def test_off(): pass
        """,
    )
    limits = {test.id.rpartition("_")[2]: test.timeout_seconds for test in checkout.collect().tests}
    assert limits == {"ini": 20.0, "marker": 7.5, "keyword": 9.0, "off": None}
    assert {test.timeout_seconds for test in checkout.collect("-p", "no:timeout", "-o", "addopts=").tests} == {None}


def test_pytest_randomly_gets_one_seed_that_is_recorded(checkout: Checkout) -> None:
    pytest.importorskip("pytest_randomly")
    checkout.write("test_a.py", "import pytest\n@pytest.mark.parametrize('x', range(20))\ndef test_a(x): pass\n")
    first = checkout.collect(seed=12)
    assert first.pytest.random_seed == 12
    assert ids(first) == ids(checkout.collect(seed=12)) != ids(checkout.collect(seed=13))
    assert checkout.collect("-p", "randomly", "--randomly-seed=5", seed=12).pytest.random_seed == 5
    assert checkout.collect("-p", "no:randomly").pytest.random_seed is None


def test_coverage_leaves_no_file_behind_and_fails_nothing(checkout: Checkout) -> None:
    pytest.importorskip("pytest_cov")
    checkout.write("test_a.py", TINY)
    assert len(checkout.collect("--cov", ".", "--cov-fail-under", "100").tests) == 1
    assert not (checkout.root / ".coverage").exists()
