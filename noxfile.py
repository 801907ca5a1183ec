"""Every check, by name: `nox` runs those of `make test`; `nox -s matrix` takes longer.

The sessions without an environment of their own use the one that nox runs in (.venv, made by `make setup`): all pins are
in pyproject.toml.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nox

nox.needs_version = ">=2024.3.2"
nox.options.sessions = ["lint", "typecheck", "contracts", "tests", "versions", "plugins", "zipapp", "policy"]
nox.options.error_on_missing_interpreters = False  # `versions` says which interpreter it misses, and skips it
nox.options.reuse_venv = "yes"

BIN = Path(sys.executable).parent
# The suite starts hundreds of pytests: without bytecode each would compile, and rewrite the asserts of, all of its plugins.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
ENDS = [("3.10", "7.4.4"), ("3.13", "9.2.0")]  # oldest and newest of Python and pytest together
MATRIX = itertools.product(["3.10", "3.11", "3.12", "3.13"], ["7.4.4", "8.4.2", "9.2.0"])
PLUGIN_PYTESTS = ["8.4.2", "9.2.0"]


def _param(python: str, pytest: str) -> Any:
    """Looks for an interpreter where pyenv keeps it, too: its `python3.10` fails unless that version is active."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    kept = sorted(root.glob(f"versions/{python}.*/bin/python"))
    return nox.param(str(kept[-1]) if kept else python, pytest, id=f"python{python}-pytest{pytest}")


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Runs ruff: its rules, and whether everything is formatted."""
    session.run(str(BIN / "ruff"), "check", ".")
    session.run(str(BIN / "ruff"), "format", "--check", ".")


@nox.session(venv_backend="none")
def typecheck(session: nox.Session) -> None:
    """Runs mypy, strict, as on the oldest Python."""
    session.run(str(BIN / "mypy"))


@nox.session(venv_backend="none")
def contracts(session: nox.Session) -> None:
    """Checks who may import whom."""
    session.run(str(BIN / "lint-imports"), "--no-logo")


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Runs the whole suite on this interpreter; arguments go to pytest."""
    # Most tests wait for processes of their own: one more worker than cores is the fastest.
    workers = str(len(os.sched_getaffinity(0)) + 1)
    session.run(sys.executable, "-m", "pytest", "-n", workers, "--dist", "loadfile", *session.posargs)


@nox.session
@nox.parametrize("python,pytest", itertools.starmap(_param, ENDS))
def versions(session: nox.Session, pytest: str) -> None:
    """Runs the tests marked `versions` on the oldest and the newest Python and pytest."""
    _test_versions(session, pytest)


@nox.session
@nox.parametrize("python,pytest", itertools.starmap(_param, MATRIX))
def matrix(session: nox.Session, pytest: str) -> None:
    """Runs the tests marked `versions` on every Python with every major pytest."""
    _test_versions(session, pytest)


def _test_versions(session: nox.Session, pytest: str) -> None:
    session.install("-e", ".[test]", f"pytest=={pytest}")
    session.run("python", "-m", "pytest", "-m", "versions", *session.posargs)


@nox.session
@nox.parametrize("pytest", PLUGIN_PYTESTS)
def plugins(session: nox.Session, pytest: str) -> None:
    """Runs the tests marked `plugins` with what suites bring along installed, on two pytests: one needs pytest-subtests."""
    session.install("-e", ".[test,bench,plugins]", f"pytest=={pytest}")
    # Off in our own pytest only: one would shuffle our tests, one warns of its defaults. The pytests under test have them.
    off = ["-p", "no:randomly", "-p", "no:asyncio"]
    session.run("python", "-m", "pytest", "-m", "plugins", *off, *session.posargs)


@nox.session
def policy(session: nox.Session) -> None:
    """Scans the stored manifests and the pods that they make; accepted findings are in tools/workflow_pods.py."""
    session.install(".[policy]")
    with tempfile.TemporaryDirectory() as folder:
        session.run("python", "tools/workflow_pods.py", "manifests", folder)
        options = ["--framework", "kubernetes", "--skip-download", "--quiet", "--compact"]
        session.run("checkov", "--directory", folder, *options)


@nox.session
def zipapp(session: nox.Session) -> None:
    """Builds dist/shardlib.pyz twice, compares, and runs a small suite with it where only pytest is installed."""
    zipapp = Path("dist/shardlib.pyz").resolve()
    session.install(f"pytest=={ENDS[-1][1]}")
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder, "again.pyz")
        for target in (zipapp, again):
            session.run("python", "tools/build_zipapp.py", str(target))
        if zipapp.read_bytes() != again.read_bytes():
            session.error(f"{zipapp} came out differently the second time: the build is not reproducible")
        with session.chdir("examples/gpu_suite/by_hand"):
            arguments = ["--shards", "2", "--gpus", "8", "--run", f"{folder}/run", "--", "tests"]
            session.run("python", str(zipapp), "local", *arguments)
