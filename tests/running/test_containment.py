"""What goes wrong in GPU suites, done for real: the test has its outcome, every other test its one result."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path

import pytest

from shardlib.model import Mode

from .harness import Suite, processes_with

pytestmark = pytest.mark.versions

# What a test does, and the outcome it must have.
FAULTS = {
    "segfault": ("crashed", "import ctypes; ctypes.string_at(0)"),
    "exit_0": ("crashed", "os._exit(0)"),
    "abort": ("crashed", "os.abort()"),
    "sigkill": ("crashed", "os.kill(os.getpid(), signal.SIGKILL)"),
    "sigterm": ("crashed", "os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)"),
    "hang": ("timed_out", "time.sleep(999)"),
    "hang_in_c": ("timed_out", "sum(range(10**18))"),  # holds the GIL: no handler of Python's runs
    "hang_woken": ("timed_out", "import ctypes; ctypes.PyDLL(None).sleep(999)"),  # returns at the first signal
    "hang_deaf": ("timed_out", "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); time.sleep(999)"),
    "descriptor_1_closed": ("passed", "os.close(1)"),
    "stdout_closed": ("failed", "sys.stdout.close()"),
    "all_closed": ("crashed", "os.closerange(3, 4096)"),
    "fds_reused": ("crashed", "os.closerange(3, 4096); kept.extend(open(os.devnull) for _ in range(300))"),
    "much_output": ("failed", "print('x' * 100_000_000); os.write(1, b'y' * 1_000_000); assert 0"),
    "sys_exit": ("failed", "sys.exit(3)"),
    "pytest_exit": ("failed", "pytest.exit('enough')"),
    "interrupt": ("failed", "raise KeyboardInterrupt"),
    "chdir": ("passed", "os.chdir('/')"),
    "rmdir": ("passed", "import tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)"),
    "handlers": (
        "passed",
        "[signal.signal(s, lambda *_: None) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]",
    ),
    "fork_into_pytest": ("passed", "os.fork()"),
    "poison": ("poisoned", "raise RuntimeError('CUDA error: device-side assert triggered')"),
    "stop_asked": ("passed", "request.session.shouldstop = 'a plugin says so'"),
    "bad_bytes": ("failed", r"print('\udcff\x00\x1b[31m'); raise AssertionError('\udcff\x00')"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_contained(suite: Suite, name: str) -> None:
    outcome, code = FAULTS[name]
    suite.write(
        "test_a.py",
        f"""
        import os, pytest, signal, sys, time
        kept = []
        def test_before(): pass
        def test_fault(request): {code}
        def test_after(): pass
        """,
    )
    suite.write("test_b.py", "def test_other(): pass")
    suite.plan(("test_a.py", ["test_before", "test_fault", "test_after"]), ("test_b.py", ["test_other"]), slots=1)
    ran = suite.run()
    expected = {"test_before": "passed", "test_fault": outcome, "test_after": "passed", "test_other": "passed"}
    assert ran.outcomes == expected
    assert ran.code == (0 if outcome == "passed" else 1)
    assert len([e for e in ran.events("start") if e["id"].endswith("test_fault")]) == 1
    assert processes_with(suite) == []
    if outcome == "failed":
        assert len(ran.tests["test_fault"]["detail"]) < 100_000


def test_a_hang_is_reported_with_the_stack_of_where_it_hung(suite: Suite) -> None:
    suite.write("test_a.py", "import ctypes\ndef test_hang():\n    sum(range(10**18))\n")
    suite.plan(("test_a.py", ["test_hang"]))
    detail = suite.run().tests["test_hang"]["detail"]
    assert 'test_a.py", line 3 in test_hang' in detail


@pytest.mark.parametrize("phase", ["setup", "teardown"])
def test_a_hang_in_a_fixture_is_contained(suite: Suite, phase: str) -> None:
    hang = "import time; time.sleep(999)"
    before, after = (hang, "pass") if phase == "setup" else ("pass", hang)
    suite.write(
        "test_a.py",
        f"""
        import pytest
        @pytest.fixture
        def slow():
            {before}
            yield
            {after}
        def test_hang(slow): pass
        def test_after(): pass
        """,
    )
    suite.plan(("test_a.py", ["test_hang", "test_after"]))
    assert suite.run().outcomes == {"test_hang": "timed_out", "test_after": "passed"}


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param("subprocess.Popen(['sleep', '300'])", id="child"),
        pytest.param("subprocess.Popen(['sleep', '300'], start_new_session=True)", id="setsid"),
        pytest.param(
            "subprocess.Popen(['sleep', '300'], start_new_session=True, env={})", id="setsid-without-environment"
        ),
        pytest.param("subprocess.Popen('setsid sleep 300 & exit', shell=True, env={})", id="double-fork"),
    ],
)
def test_children_left_behind_are_killed(suite: Suite, leave: str) -> None:
    suite.write("test_a.py", f"import subprocess\ndef test_leaves():\n    open('pid', 'w').write(str({leave}.pid))\n")
    suite.plan(("test_a.py", ["test_leaves"]))
    ran = suite.run()
    assert ran.outcomes == {"test_leaves": "passed"}
    assert processes_with(suite) == []
    pid = (suite.root / "pid").read_text()
    assert not Path("/proc", pid).exists()
    assert "left behind" in ran.output


def test_a_session_fixture_that_fails_to_end_is_its_workers_last_tests_error(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        """
        import pytest
        @pytest.fixture(scope="session", autouse=True)
        def server():
            yield
            raise RuntimeError("server did not stop")
        """,
    )
    suite.write("test_a.py", "def test_one(): pass\ndef test_two(): pass")
    suite.plan(("test_a.py", ["test_one", "test_two"]))
    ran = suite.run()
    assert ran.outcomes == {"test_one": "passed", "test_two": "error"}
    assert "server did not stop" in ran.tests["test_two"]["detail"]
    assert ran.code == 1


@pytest.mark.parametrize("end", ["os.abort()", "time.sleep(999)"], ids=["abort", "hang"])
def test_a_worker_that_does_not_end_is_its_last_tests_error(suite: Suite, end: str) -> None:
    suite.write("test_a.py", f"import atexit, os, time\ndef test_one(): atexit.register(lambda: {end})")
    suite.plan(("test_a.py", ["test_one"]))
    ran = suite.run()
    assert ran.outcomes == {"test_one": "error"}
    assert ran.code == 1


def test_a_group_is_given_up_after_three_barren_workers_and_its_tests_are_errors(suite: Suite) -> None:
    names = [f"test_{i}" for i in range(6)]
    suite.write("test_a.py", "import os\n" + "".join(f"def {name}(): os.abort()\n" for name in names))
    suite.write("test_b.py", "def test_other(): pass")
    suite.plan(("test_a.py", names), ("test_b.py", ["test_other"]), slots=1)
    ran = suite.run()
    assert list(ran.outcomes.values()) == ["crashed"] * 3 + ["not_run"] * 3 + ["passed"]
    assert ran.code == 1


def test_a_file_that_kills_its_process_on_import_is_given_up(suite: Suite) -> None:
    suite.write("test_a.py", "import os\nos.abort()\ndef test_one(): pass")
    suite.write("test_b.py", "def test_other(): pass")
    suite.plan(("test_b.py", ["test_other"]), ("test_a.py", ["test_one"]), slots=1)
    assert suite.run().outcomes == {"test_one": "not_run", "test_other": "passed"}


def test_workers_that_never_start_end_the_shard_soon(suite: Suite) -> None:
    suite.args = ("--no-such-option",)
    suite.write("test_a.py", "def test_one(): pass")
    suite.plan(*[("test_a.py", ["test_one"])], *[(f"test_{i}.py", ["test_x"]) for i in range(20)])
    ran = suite.run()
    assert set(ran.outcomes.values()) == {"not_run"}
    assert "--no-such-option" in ran.tests["test_one"]["detail"]
    assert len(ran.events("worker_start")) <= 4


def test_tests_that_the_plan_lacks_and_tests_that_are_gone_are_red_by_name(suite: Suite) -> None:
    suite.write("test_a.py", "def test_one(): pass\ndef test_new(): pass")
    suite.plan(("test_a.py", ["test_one", "test_gone"]))
    ran = suite.run()
    assert ran.outcomes == {"test_one": "passed", "test_gone": "missing"}
    result = suite.folder.shard("01").read_result("g00001", 0)
    assert result["extra"] == ["test_a.py::test_new"]
    assert ran.code == 1


def test_what_a_used_process_cannot_collect_is_tried_in_a_fresh_one(suite: Suite) -> None:
    suite.write("test_a.py", "import sys\ndef test_one(): sys.spoilt = True")
    suite.write("test_b.py", "import sys\nif not hasattr(sys, 'spoilt'):\n    def test_two(): pass")
    suite.plan(("test_a.py", ["test_one"]), ("test_b.py", ["test_two"]), slots=1)
    ran = suite.run()
    assert ran.outcomes == {"test_one": "passed", "test_two": "passed"}
    assert len(ran.events("worker_start")) == 2


# --- GPU memory -----------------------------------------------------------------------------------------------------

ALLOCATE = """
import os, pathlib
def allocate(mebibytes):
    gpu = os.environ["CUDA_VISIBLE_DEVICES"].split(",")[0]
    pathlib.Path(os.environ["SHARDLIB_SIMULATED_GPUS"], gpu, str(os.getpid())).write_text(str(mebibytes << 20))
"""


def test_a_file_that_leaves_gpu_memory_behind_loses_its_worker_and_is_named(suite: Suite) -> None:
    suite.write("test_a.py", ALLOCATE + "def test_model(): allocate(60)")
    suite.write("test_b.py", "def test_next(): pass")
    suite.plan(("test_a.py", ["test_model"]), ("test_b.py", ["test_next"]), slots=1)
    ran = suite.run()
    assert ran.code == 0
    assert len(ran.events("worker_start")) == 2
    assert "test_a.py left 60 MiB" in ran.output


def test_a_file_that_frees_its_memory_keeps_its_worker(suite: Suite) -> None:
    suite.write("test_a.py", ALLOCATE + "def test_model():\n    allocate(60)\n    allocate(0)\n")
    suite.write("test_b.py", "def test_next(): pass")
    suite.plan(("test_a.py", ["test_model"]), ("test_b.py", ["test_next"]), slots=1)
    assert len(suite.run().events("worker_start")) == 1


def test_gpus_that_are_dirty_before_the_first_test_are_infrastructure(suite: Suite, tmp_path: Path) -> None:
    gpus = tmp_path / "gpus"
    (gpus / "1").mkdir(parents=True)
    (gpus / "1" / "1").write_text(str(5 << 30))  # process 1 lives
    suite.environment["SHARDLIB_SIMULATED_GPUS"] = str(gpus)
    suite.write("test_a.py", "def test_one(): pass")
    suite.plan(("test_a.py", ["test_one"]))
    ran = suite.run()
    assert ran.code == 75
    assert "GPU 1 (5120 MiB)" in ran.output
    assert suite.folder.shard("01").read_done(0)["end"] == "infrastructure"  # type: ignore[index]
    (gpus / "1" / "1").unlink()
    assert suite.run().outcomes == {"test_one": "passed"}


# --- processes and GPUs ---------------------------------------------------------------------------------------------

SHOW = """
import os, pathlib, time
def show(name):
    with open(pathlib.Path(__file__).parent / "shown", "a") as file:
        print(name, os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"], file=file)
"""


def shown(suite: Suite) -> dict[str, list[str]]:
    rows = [line.split(" ") for line in (suite.root / "shown").read_text().splitlines()]
    return {name: rest for name, *rest in rows}


def test_a_mode_decides_how_many_gpus_and_how_long_a_worker_lives(suite: Suite) -> None:
    for name in "abcdef":
        suite.write(f"test_{name}.py", SHOW + f"def test_{name}(): show('{name}')")
    files = [(f"test_{name}.py", [f"test_{name}"]) for name in "abcdef"]
    modes = {
        2: (Mode.ISOLATED, 2),
        3: (Mode.ISOLATED, 2),
        4: (Mode.SEQUENTIAL, 4),
        5: (Mode.SEQUENTIAL, 4),
    }
    suite.plan(*files, slots=4, modes=modes)
    assert suite.run("--max-workers", "1").code == 0
    seen = shown(suite)
    pids = {name: pid for name, (pid, _) in seen.items()}
    assert pids["a"] == pids["b"], "concurrent: a worker goes on file after file"
    assert pids["c"] != pids["d"], "isolated: a fresh process for each file"
    assert pids["e"] == pids["f"], "sequential: one worker, file after file"
    widths = {name: len(gpus.split(",")) for name, (_, gpus) in seen.items()}
    assert widths == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 4, "f": 4}


def test_cpu_tests_see_no_gpu(suite: Suite) -> None:
    suite.write("test_a.py", SHOW + "def test_a(): show('a')")
    suite.plan(("test_a.py", ["test_a"]), modes={0: (Mode.CPU, 0)})
    assert suite.run(shard="cpu").code == 0
    assert shown(suite)["a"][1] == ""


def test_module_fixtures_end_with_the_file_and_session_fixtures_with_the_worker(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        """
        import pytest, pathlib
        def log(text):
            with open(pathlib.Path(__file__).parent / "log", "a") as file:
                print(text, file=file)
        @pytest.fixture(scope="session", autouse=True)
        def session():
            log("session begins"); yield; log("session ends")
        @pytest.fixture(scope="module", autouse=True)
        def module(request):
            log(request.module.__name__ + " begins"); yield; log(request.module.__name__ + " ends")
        """,
    )
    for name in "ab":
        suite.write(f"test_{name}.py", "def test_x(): pass\ndef test_y(): pass")
    suite.plan(("test_a.py", ["test_x", "test_y"]), ("test_b.py", ["test_x", "test_y"]), slots=1)
    assert suite.run().code == 0
    assert (suite.root / "log").read_text().splitlines() == [
        "session begins", "test_a begins", "test_a ends", "test_b begins", "test_b ends", "session ends",
    ]  # fmt: skip


def test_groups_run_side_by_side_on_their_own_gpus(suite: Suite) -> None:
    meet = """
    import pathlib, time
    def test_meets():
        here = pathlib.Path(__file__)
        here.with_suffix(".came").touch()
        end = time.monotonic() + 20
        while not all((here.parent / f"test_{n}.came").exists() for n in "ab"):
            assert time.monotonic() < end
            time.sleep(0.01)
    """
    for name in "ab":
        suite.write(f"test_{name}.py", textwrap.dedent(meet))
    suite.settings = {"min_timeout_seconds": 30.0}
    suite.plan(("test_a.py", ["test_meets"]), ("test_b.py", ["test_meets"]))
    assert suite.run().code == 0


def test_a_stopped_shard_ends_in_order_and_the_next_attempt_finishes_it(suite: Suite) -> None:
    suite.settings = {"min_timeout_seconds": 60.0}
    suite.write(
        "test_a.py",
        """
        import pathlib, time
        def test_done(): pass
        def test_slow():
            flag = pathlib.Path(__file__).with_name("came")
            if not flag.exists():
                flag.touch()
                time.sleep(300)
        """,
    )
    suite.plan(("test_a.py", ["test_done", "test_slow"]))
    process = suite.start()
    deadline = time.monotonic() + 60
    while not (suite.root / "came").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 75, output
    assert processes_with(suite) == []
    assert suite.folder.shard("01").read_done(0)["end"] == "stopped"  # type: ignore[index]
    ran = suite.run()
    assert ran.code == 0
    assert [event["id"] for event in ran.events("start", attempt=1)] == ["test_a.py::test_slow"]
    assert {name: test["attempt"] for name, test in ran.tests.items()} == {"test_done": 0, "test_slow": 1}
