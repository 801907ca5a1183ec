"""What the command lines of shardlib and of workflows share: dispatch to one module per command, and errors as exit codes.

Each command module has `add_arguments(parser)` and `main(args) -> int`. What follows the first `--` is pytest's own and
reaches a command that takes it as `args.pytest_args`.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import select
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import NoReturn, TextIO

from shardlib import __version__
from shardlib.errors import Exit, ShardlibError, UsageError

_INTERRUPTED = 130  # what a shell reports of a program that SIGINT ended
_UNREAD = 141  # and of one that SIGPIPE ended: `shardlib plan ... | head` has seen enough
_PYTEST_ARGUMENTS = "[-- pytest arguments]"


@dataclass(frozen=True, kw_only=True)
class Command:
    """What is said of a command before its module is imported."""

    help: str
    takes_pytest_args: bool = False


@dataclass(frozen=True, kw_only=True)
class Program:
    """A command line.

    Attributes:
        name: what its messages begin with.
        usage: how a person calls it.
        package: where the commands' modules are.
        commands: by heading, then by name.
        extras: of each library that may be missing, shardlib's extra that brings it.
        declare: declares the options that all commands have.
    """

    name: str
    usage: str
    package: str
    commands: Mapping[str, Mapping[str, Command]]
    extras: Mapping[str, str]
    declare: Callable[[argparse.ArgumentParser], object] = lambda parser: None

    @property
    def by_name(self) -> dict[str, Command]:
        """The commands without their headings."""
        return {name: command for group in self.commands.values() for name, command in group.items()}

    @property
    def takes_pytest_args(self) -> bool:
        """Whether a `--` begins what is pytest's; else it is argparse's own."""
        return any(command.takes_pytest_args for command in self.by_name.values())


class _Parser(argparse.ArgumentParser):
    """argparse, but its errors are ours: argparse would exit with 2, which is pytest's."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


def at_least_one(text: str) -> int:
    """Returns the number, for argparse: what `type=` takes where 0 is no count."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, at least 1")
    return number


def main(program: Program, argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code (see `errors`); prints errors on stderr, and never raises them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a node id may hold what the terminal's encoding cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _guarded(program, list(sys.argv[1:] if argv is None else argv))
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


def _guarded(program: Program, argv: list[str]) -> int:
    """Returns the exit code, whatever happens; BrokenPipeError if nobody reads what it says."""
    try:
        return _dispatch(program, argv)
    except ShardlibError as err:
        print(f"{program.name}: error: {err}", file=sys.stderr)
        return err.exit_code
    except KeyboardInterrupt:
        print(f"{program.name}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except Exception as err:
        if isinstance(err, BrokenPipeError) and any(map(_reader_is_gone, (sys.stdout, sys.stderr))):
            raise
        traceback.print_exc()
        print(f"{program.name}: this is a bug in shardlib; please report it with the traceback above", file=sys.stderr)
        return Exit.BUG


def _reader_is_gone(stream: TextIO | None) -> bool:
    """Whether a stream is a pipe whose other end is closed; poll reports that unasked."""
    try:
        poll = select.poll()
        poll.register(-1 if stream is None else stream.fileno(), 0)
        return bool(poll.poll(0))
    except (OSError, ValueError):  # no file behind it, or closed
        return False


def _dispatch(program: Program, argv: list[str]) -> int:
    own, pytest_args = argv, None
    if "--" in argv and program.takes_pytest_args:
        own, pytest_args = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    name = own[0] if own else None
    if name in (None, "-h", "--help"):
        sys.stdout.write(_overview(program))
        return Exit.GREEN if name else UsageError.exit_code
    if name == "--version":
        sys.stdout.write(f"shardlib {__version__}\n")
        return Exit.GREEN
    command = program.by_name.get(name or "")
    if name is None or command is None:
        raise UsageError(f"no command {name!r}; the commands: {', '.join(program.by_name)}")
    if pytest_args is not None and not command.takes_pytest_args:
        raise UsageError(
            f"`{name}` takes no pytest arguments: those of the plan hold (remove {' '.join(['--', *pytest_args])})"
        )
    try:
        module = importlib.import_module(f"{program.package}.{name.replace('-', '_')}")
        args = _parse(program, name, command, module, own[1:])
        if args is None:
            return Exit.GREEN
        args.pytest_args = pytest_args or []
        return int(module.main(args))
    except ModuleNotFoundError as err:
        library = (err.name or "").partition(".")[0]
        if library not in program.extras:
            raise
        extra = program.extras[library]
        raise UsageError(f"`{name}` needs {library}; install shardlib with its extra `{extra}`") from err


def _parse(
    program: Program, name: str, command: Command, module: ModuleType, argv: Sequence[str]
) -> argparse.Namespace | None:
    """Returns the options; None if they asked for help, which is given."""
    described = f"{command.help[0].upper()}{command.help[1:]}."
    parser = _Parser(prog=f"{program.usage} {name}", description=described, allow_abbrev=False)
    program.declare(parser)
    module.add_arguments(parser)
    hint = ""
    if command.takes_pytest_args:
        parser.epilog = "What follows `--` is pytest's own."
        usage = parser.format_usage().removeprefix("usage: ").rstrip()
        parser.usage = f"{usage} {_PYTEST_ARGUMENTS}".replace("%", "%%")
        hint = "; arguments for pytest go behind --"
    try:
        args, strange = parser.parse_known_args(argv)
    except SystemExit:  # --help
        return None
    if strange:
        parser.error(f"unrecognized arguments: {' '.join(strange)}{hint}")
    return args


def _overview(program: Program) -> str:
    width = max(map(len, program.by_name))
    lines = [f"usage: {program.usage} COMMAND [options]{f' {_PYTEST_ARGUMENTS}' if program.takes_pytest_args else ''}"]
    for heading, group in program.commands.items():
        lines += ["", f"{heading}:", *(f"  {name:{width}}  {command.help}" for name, command in group.items())]
    lines += ["", f"`{program.usage} COMMAND --help` says more; `{program.usage} --version` says which one this is."]
    return "\n".join(lines) + "\n"
