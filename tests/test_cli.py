from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from shardlib import __version__, cli
from shardlib.errors import Exit, PlanError, RunFolderError, SettingsError, ShardlibError, UsageError


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module in the place of `shardlib.commands.collect`."""
    module = ModuleType("shardlib.commands.collect")

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--number", type=int)
        parser.add_argument("--output")

    vars(module).update(add_arguments=add_arguments, main=lambda args: 0)
    monkeypatch.setitem(sys.modules, "shardlib.commands.collect", module)
    return module


def raising(error: BaseException) -> object:
    def main(args: argparse.Namespace) -> int:
        raise error

    return main


@pytest.mark.parametrize("error", [UsageError, SettingsError, PlanError, RunFolderError])
def test_an_error_of_ours_becomes_its_family_code_and_one_message(
    command: ModuleType, capsys: pytest.CaptureFixture[str], error: type[ShardlibError]
) -> None:
    vars(command)["main"] = raising(error("what is wrong"))
    assert cli.main(["collect"]) == error.exit_code
    out, err = capsys.readouterr()
    assert (out, err) == ("", "shardlib: error: what is wrong\n")


def test_an_unexpected_exception_is_a_bug_with_its_traceback(
    command: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    vars(command)["main"] = raising(ZeroDivisionError("oops"))
    assert cli.main(["collect"]) == int(Exit.BUG) == 70
    err = capsys.readouterr().err
    assert "ZeroDivisionError: oops" in err
    assert "this is a bug in shardlib; please report it with the traceback above" in err


def test_an_interrupt_is_130(command: ModuleType) -> None:
    vars(command)["main"] = raising(KeyboardInterrupt())
    assert cli.main(["collect"]) == 130


@pytest.mark.parametrize("lines", [1, 100_000], ids=["at the end", "in the middle"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_is_no_bug(stream: str, lines: int, unbuffered: str) -> None:
    code = f"""
import sys
from shardlib import cli, commandline
commandline._dispatch = lambda program, argv: [print("what nobody reads", file=sys.{stream}) for _ in range({lines})] and 0
raise SystemExit(cli.main([]))
"""
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=writing if stream == "stdout" else subprocess.PIPE,
        stderr=writing if stream == "stderr" else subprocess.PIPE,
        cwd=Path(cli.__file__).parent.parent,
        env={"PYTHONUNBUFFERED": unbuffered},
    )
    os.close(writing)
    out, err = process.communicate()
    assert process.returncode == 141
    assert not out
    assert not err


def test_a_reader_that_goes_when_all_is_said_changes_nothing() -> None:
    code = """
import sys, time
from shardlib import cli, commandline
def say(program, argv):
    print("all", flush=True)
    while not commandline._reader_is_gone(sys.stdout):
        time.sleep(0.01)
    return 1
commandline._dispatch = say
raise SystemExit(cli.main([]))
"""
    root = Path(cli.__file__).parent.parent
    with subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"all\n"
        process.stdout.close()
        assert process.wait() == 1


def test_another_pipe_that_breaks_is_a_bug(command: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    vars(command)["main"] = raising(BrokenPipeError("a worker's"))
    assert cli.main(["collect"]) == int(Exit.BUG)
    assert "BrokenPipeError: a worker's" in capsys.readouterr().err


def test_the_code_of_the_command_is_passed_on(command: ModuleType) -> None:
    for code in (Exit.GREEN, Exit.RED, Exit.INFRASTRUCTURE):
        vars(command)["main"] = lambda args, code=code: code
        assert cli.main(["collect"]) == code


def test_everything_after_the_first_double_dash_is_pytests(command: ModuleType) -> None:
    seen: list[argparse.Namespace] = []

    def keep(args: argparse.Namespace) -> int:
        seen.append(args)
        return 0

    vars(command)["main"] = keep
    cli.main(["collect", "--number", "3", "--", "--number", "x", "--", "--help", "tests/a b"])
    assert seen[0].number == 3
    assert seen[0].pytest_args == ["--number", "x", "--", "--help", "tests/a b"]
    cli.main(["collect"])
    assert seen[1].pytest_args == []


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["colect"], ["'colect'", "collect, plan, run, verify, local, explain"]),
        (["collect", "--number", "x"], ["--number", "'x'", "usage: shardlib collect"]),
        (["collect", "--nmber", "3"], ["--nmber"]),
        (["collect", "--num", "3"], ["--num"]),  # an abbreviation today is another option tomorrow
        (["collect", "tests"], ["tests; arguments for pytest go behind --", "[-- pytest arguments]"]),
        (["verify", "--run", "x", "tests"], ["unrecognized arguments: tests\nusage: "]),
        (["run", "--run", "x", "--shard", "01", "--", "-k", "x"], ["`run` takes no pytest arguments", "-- -k x"]),
    ],
)
def test_a_wrong_command_line_is_11_and_says_what_is_right(
    command: ModuleType, capsys: pytest.CaptureFixture[str], argv: list[str], named: list[str]
) -> None:
    assert cli.main(argv) == UsageError.exit_code == 11
    out, err = capsys.readouterr()
    assert out == ""
    for text in named:
        assert text in err


def test_help_and_version_are_green_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, text in (
        (["--help"], "explain"),
        (["-h"], "verify"),
        (["--version"], __version__),
        (["collect", "--help"], "--output"),
        (["plan", "--help"], "What follows `--` is pytest's own."),
        (["plan", "--help"], "[-- pytest arguments]"),
        (["explain", "--help"], "NODE_ID"),
    ):
        assert cli.main(argv) == 0
        assert text in capsys.readouterr().out


def test_no_command_shows_the_commands_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 11
    assert "collect" in capsys.readouterr().out


def test_the_package_runs_as_a_module_and_imports_only_the_command_it_runs(tmp_path: Path) -> None:
    code = (
        "import sys; from shardlib.cli import main; assert main(['collect', '--help']) == 0;"
        "assert not {'shardlib.packing', 'shardlib.verdict', 'shardlib.running'} & set(sys.modules)"
    )
    root = Path(cli.__file__).parent.parent
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-m", "shardlib", "--version"], cwd=root, check=True, capture_output=True, text=True
    )
    assert done.stdout == f"shardlib {__version__}\n"


def test_output_that_the_terminal_cannot_encode_is_escaped(tmp_path: Path) -> None:
    code = (
        "from shardlib import cli, commandline;"
        "commandline._dispatch = lambda program, argv: print('\\ud800 \\u2603') or 0;"
        "raise SystemExit(cli.main([]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(cli.__file__).parent.parent,
        env={"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"\\ud800 \\u2603\n"


def test_commands_for_people_stand_apart_from_the_workflows_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    people, _, steps = out.partition("steps of the workflow:\n")
    assert "for you:\n  collect" in people
    assert "  weights " in people
    assert "  verify-gate " in steps
    assert "--version" in out
