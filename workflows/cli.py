"""`python -m workflows`: one sub-command each to print, render, lint, dry-run, preflight and submit the chain."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from shardlib.errors import Exit, ShardlibError, UsageError

# Modules are imported only when their command is called: most need no cluster's client.
_COMMANDS = {
    "render": "print the manifests, or write them to a folder for kubectl apply -k",
    "lint": "check the manifests by our own rules, the schemas, and `argo lint` where argo is installed",
    "dry-run": "say what would run for a checkout, without a cluster",
    "preflight": "check a cluster for all that the chain needs",
    "submit": "start a run for a pull request",
    "open-gate": "make the runs fit a pull request as it is on GitHub: what the webhook does, for CI",
    "close-gate": "make the runs fit a pull request, as open-gate does; if GitHub says it is closed, stop them",
}


class _Parser(argparse.ArgumentParser):
    """argparse, but its errors have shardlib's exit code."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; errors are shardlib's, with their codes, printed on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments else ""
    try:
        if name in ("-h", "--help"):
            sys.stdout.write(_overview())
            return Exit.GREEN
        if name not in _COMMANDS:
            raise UsageError(f"no command {name!r}\n{_overview().rstrip()}")
        module = importlib.import_module(f"workflows.commands.{name.replace('-', '_')}")
        parser = _Parser(prog=f"python -m workflows {name}", description=f"{_COMMANDS[name]}.", allow_abbrev=False)
        parser.add_argument(
            "--settings", type=Path, default=Path("gpu-ci.toml"), metavar="FILE", help="default: gpu-ci.toml"
        )
        module.add_arguments(parser)
        return int(module.main(parser.parse_args(arguments[1:])))
    except SystemExit as end:  # --help
        return int(end.code or 0)
    except ShardlibError as err:
        print(f"workflows: error: {err}", file=sys.stderr)
        return err.exit_code


def _overview() -> str:
    width = max(map(len, _COMMANDS))
    rows = "".join(f"  {name:{width}}  {text}\n" for name, text in _COMMANDS.items())
    return f"usage: python -m workflows COMMAND [options]\n\n{rows}"
