"""`python -m workflows dry-run`: what a run of a checkout would do, without a cluster and without GPUs."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from shardlib import child
from shardlib.commandline import at_least_one
from shardlib.commands.find_changed import explain, matching
from shardlib.errors import UsageError
from shardlib.git import changed_files
from workflows import settings
from workflows.render import render
from workflows.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("--repo", type=Path, default=Path(), metavar="DIR", help="the checkout (default: here)")
    parser.add_argument("--base", metavar="BRANCH", help="default: the setting base_branch")
    parser.add_argument("--head", default="HEAD", metavar="REV", help="default: HEAD")
    parser.add_argument("--shards", type=at_least_one, metavar="N", help="default: the setting shards")
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="PROGRAM",
        help="an interpreter that has what its tests need (default: this one)",
    )
    parser.add_argument("--gpu-hour-price", type=float, metavar="P", help="adds the predicted cost")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the YAML here; default: print it last")


def main(args: argparse.Namespace) -> int:
    """Prints changed files, gate, image, plan and YAML; returns the code of what would fail first, else 0."""
    own, python = settings.load(args.settings), _program(args.python)
    changed = changed_files(args.repo, args.base or own.base_branch, args.head)
    touched = matching(changed, own.gpu_paths)
    print("find-changed")
    _say(*explain(changed, touched))
    print("wait-for-label")
    _say(_gate(own, bool(touched)))
    print("build-image")
    _say(f"{own.dockerfile} at {args.head}, pushed to {own.build_image}", *_missing(args.repo, own))
    print("collect-tests, calculate-shards", flush=True)
    code = _plan(args, own, python)
    yaml = "---\n".join(text for name, text in render(own).items() if name != "kustomization.yaml")
    if args.output:
        args.output.write_text(yaml, encoding="utf-8")
        print(f"the manifests are in {args.output}")
    else:
        print(f"---\n{yaml}", end="")
    return code


def _gate(own: Settings, needed: bool) -> str:
    if not needed:
        return "skipped, and all that follows: the run ends green"
    return f"waits for somebody, {own.deadline_seconds // 3600} h at most" if own.gate else "no gate: goes on at once"


def _missing(repo: Path, own: Settings) -> list[str]:
    names = [own.dockerfile, *([own.durations] if own.durations else [])]
    return [f"{name}: not in the checkout, so the run would fail" for name in names if not (repo / name).is_file()]


def _program(name: str) -> str:
    """Returns the program's path, which holds in the checkout too; UsageError if there is none."""
    path = shutil.which(name)
    if path is None:
        raise UsageError(f"--python {name}: no such program; name an interpreter that has what the tests need")
    return str(Path(path).absolute())  # not resolved: a virtual environment's is a link


def _plan(args: argparse.Namespace, own: Settings, python: str) -> int:
    """Collects and plans as the steps would, in a process of the checkout's own interpreter; returns its code."""
    durations = (args.repo / own.durations).resolve() if own.durations else None
    with tempfile.TemporaryDirectory(prefix="shardlib-") as folder:
        options = ["--run", f"{folder}/run", "--shards", str(args.shards or own.shards), "--gpus", str(own.gpus)]
        options += ["--durations", str(durations)] if durations and durations.is_file() else []
        options += ["--gpu-hour-price", str(args.gpu_hour_price)] if args.gpu_hour_price is not None else []
        command = child.command("shardlib.cli:main", "plan", *options, "--", *own.pytest_args, python=python)
        done = subprocess.run(command, cwd=args.repo, capture_output=True, text=True, check=False)
    _say(*done.stdout.splitlines(), *(done.stderr.splitlines() if done.returncode else []))
    return done.returncode


def _say(*lines: str) -> None:
    for line in lines:
        print(f"  {line}" if line else "")
