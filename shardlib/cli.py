"""The command line: one sub-command per module of `shardlib.commands`; errors become exit codes here and only here.

Each command module has `add_arguments(parser)` and `main(args) -> int`. What follows the first `--` is pytest's own and
reaches the command as `args.pytest_args`.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import select
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, TextIO

from shardlib import __version__
from shardlib.errors import Exit, ShardlibError, UsageError

_INTERRUPTED = 130  # what a shell reports of a program that SIGINT ended
_UNREAD = 141  # and of one that SIGPIPE ended: `shardlib plan ... | head` has seen enough


@dataclass(frozen=True, kw_only=True)
class _Command:
    help: str
    takes_pytest_args: bool = False


# Modules are imported only when their command is called: `run` and `collect` work in images that lack what others need.
_COMMANDS = {
    "collect": _Command(help="collect the tests with pytest, with each one's mode and GPUs", takes_pytest_args=True),
    "plan": _Command(help="decide which shard runs which tests, and predict how long", takes_pytest_args=True),
    "run": _Command(help="run one shard of a plan"),
    "verify": _Command(help="prove from the run's folder that every test ran exactly once, and give the verdict"),
    "local": _Command(help="collect, plan, run and verify on this machine", takes_pytest_args=True),
    "explain": _Command(help="say where a test runs, and why"),
    "find-changed": _Command(help="say whether a head changes files that the GPU tests are for"),
    "verify-gate": _Command(help="ask GitHub whether somebody with write access has approved exactly this commit"),
    "fetch-source": _Command(help="make a checkout of one commit, for the build"),
    "open-gate": _Command(help="make the cluster's runs fit a pull request: submit, resume, retry, stop"),
    "close-gate": _Command(
        help="make the runs fit a pull request, as open-gate does; if GitHub says it is closed, stop them"
    ),
    "tag-image": _Command(help="let a tag name an image's digest, which may come from another repository"),
    "conclude": _Command(help="report how a workflow ended, from what the run's folder holds"),
    "check": _Command(help="say on GitHub how far a workflow is with a commit"),
    "sweep": _Command(help="conclude the checks that workflows left open"),
    "weights": _Command(help="turn logs of past runs into the durations file: collect, fit, review, accept"),
}


class _Parser(argparse.ArgumentParser):
    """argparse, but its errors are ours: argparse would exit with 2, which is pytest's."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code (see `errors`); prints errors on stderr, and never raises them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a node id may hold what the terminal's encoding cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _guarded(list(sys.argv[1:] if argv is None else argv))
    except BrokenPipeError:
        code = _UNREAD
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # the caller may have closed it
                stream.flush()
        except BrokenPipeError:
            code = _UNREAD
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())  # or Python would try again at its exit, and complain
    return code


def _guarded(argv: list[str]) -> int:
    """Returns the exit code, whatever happens; BrokenPipeError if nobody reads what it says."""
    try:
        return _dispatch(argv)
    except ShardlibError as err:
        print(f"shardlib: error: {err}", file=sys.stderr)
        return err.exit_code
    except KeyboardInterrupt:
        print("shardlib: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except Exception as err:
        if isinstance(err, BrokenPipeError) and any(map(_reader_is_gone, (sys.stdout, sys.stderr))):
            raise
        traceback.print_exc()
        print("shardlib: this is a bug in shardlib", file=sys.stderr)
        return Exit.BUG


def _reader_is_gone(stream: TextIO | None) -> bool:
    """Whether a stream is a pipe whose other end is closed; poll reports that unasked."""
    try:
        poll = select.poll()
        poll.register(-1 if stream is None else stream.fileno(), 0)
        return bool(poll.poll(0))
    except (OSError, ValueError):  # no file behind it, or closed
        return False


def _dispatch(argv: list[str]) -> int:
    own, pytest_args = argv, None
    if "--" in argv:
        own, pytest_args = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    name = own[0] if own else None
    if name in (None, "-h", "--help"):
        sys.stdout.write(_overview())
        return Exit.GREEN if name else UsageError.exit_code
    if name == "--version":
        sys.stdout.write(f"shardlib {__version__}\n")
        return Exit.GREEN
    command = _COMMANDS.get(name or "")
    if command is None:
        raise UsageError(f"no command {name!r}; the commands: {', '.join(_COMMANDS)}")
    if pytest_args is not None and not command.takes_pytest_args:
        raise UsageError(
            f"`{name}` takes no pytest arguments: those of the plan hold (remove {' '.join(['--', *pytest_args])})"
        )
    module = importlib.import_module(f"shardlib.commands.{str(name).replace('-', '_')}")
    parser = _Parser(
        prog=f"shardlib {name}", description=f"{command.help[0].upper()}{command.help[1:]}.", allow_abbrev=False
    )
    if command.takes_pytest_args:
        parser.epilog = "What follows `--` is pytest's own."
    module.add_arguments(parser)
    try:
        args = parser.parse_args(own[1:])
    except SystemExit as end:  # --help
        return int(end.code or 0)
    args.pytest_args = pytest_args or []
    return int(module.main(args))


def _overview() -> str:
    width = max(map(len, _COMMANDS))
    rows = "".join(f"  {name:{width}}  {command.help}\n" for name, command in _COMMANDS.items())
    return f"usage: shardlib COMMAND [options] [-- pytest arguments]\n\n{rows}\n`shardlib COMMAND --help` says more.\n"
