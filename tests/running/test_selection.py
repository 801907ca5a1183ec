from __future__ import annotations

from pathlib import Path

import pytest

from shardlib.running.selection import select

CWD = Path("/repo")
FILE = Path("/repo/tests/gpu/test_a.py")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["tests"], ["tests"]),
        (["/repo"], ["/repo"]),
        (["docs", "tests/gpu", "tests/cpu"], ["tests/gpu"]),
        (["tests/gpu/test_b.py", "./tests/gpu/../gpu/test_a.py"], ["./tests/gpu/../gpu/test_a.py"]),
        (["tests/gpu/test_a.py::test_x[a::b]", "tests/gpu/test_b.py::test_y"], ["tests/gpu/test_a.py::test_x[a::b]"]),
        (["tests/gpu/test_a.py::test_x", "tests"], ["tests/gpu/test_a.py::test_x", "tests"]),
        (["tests/gpu/test_a"], [str(FILE)]),  # leads nowhere: something else collected the file
        ([], [str(FILE)]),
    ],
)
def test_arguments_that_lead_to_the_file_are_kept(given: list[str], kept: list[str]) -> None:
    assert select(FILE, given, cwd=CWD, packages=False).arguments == tuple(kept)


def test_names_of_packages_lead_to_their_files() -> None:
    file = Path(pytest.__file__)
    arguments = ["json", "pytest", "pytest::test_x", "no.such.module", "/not/a name"]
    assert select(file, arguments, cwd=CWD, packages=True).arguments == ("pytest", "pytest::test_x")
    file = CWD / "no_module" / "test_a.py"
    assert select(file, ["no_module"], cwd=CWD, packages=True).arguments == ("no_module",)


def test_all_but_the_way_to_the_file_is_ignored() -> None:
    ignores = select(FILE, ["tests"], cwd=CWD, packages=False).ignores
    for path in ("/repo", "/repo/tests", "/repo/tests/gpu", "/repo/tests/gpu/__init__.py", str(FILE)):
        assert not ignores(Path(path))
    for path in ("/repo/docs", "/repo/tests/gpu/test_b.py", "/repo/tests/cpu/__init__.py", "/repo/tests/gpu/test_a"):
        assert ignores(Path(path))
