from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

from shardlib import cli, commandline
from workflows import cli as workflows_cli

PROGRAMS = [cli.PROGRAM, workflows_cli.PROGRAM]


def lacking(library: str) -> object:
    """What `add_arguments` and `main` may do: import something that is not there."""

    def either(argument: object) -> int:
        raise ModuleNotFoundError(f"No module named {library!r}", name=library)

    return either


def put(monkeypatch: pytest.MonkeyPatch, program: commandline.Program, **functions: object) -> str:
    """Puts a module in the place of the program's first command, which is returned."""
    name = next(iter(next(iter(program.commands.values()))))
    module = ModuleType(f"{program.package}.{name}")
    vars(module).update({"add_arguments": lambda parser: None, "main": lambda args: 0} | functions)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return name


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("function", ["add_arguments", "main"])
def test_a_library_of_an_extra_that_is_missing_names_the_extra(
    program: commandline.Program, function: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for library, extra in program.extras.items():
        name = put(monkeypatch, program, **{function: lacking(f"{library}.part")})
        assert commandline.main(program, [name]) == 11
        assert f"`{name}` needs {library}; install shardlib with its extra `{extra}`" in capsys.readouterr().err


@pytest.mark.parametrize("program", PROGRAMS)
def test_any_other_module_that_is_missing_is_a_bug(
    program: commandline.Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = put(monkeypatch, program, main=lacking("shardlib.nothing"))
    assert commandline.main(program, [name]) == 70
    err = capsys.readouterr().err
    assert "ModuleNotFoundError" in err
    assert f"{program.name}: this is a bug in shardlib" in err


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_extra_brings_the_libraries_that_name_it(program: commandline.Program) -> None:
    distributions = {"jwt": "pyjwt", "yaml": "hera"}  # hera brings yaml
    for library, extra in program.extras.items():
        assert distributions.get(library, library) in brought(extra), library


def brought(extra: str) -> set[str]:
    """Returns the distributions of an extra, and of those that it consists of."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    project = toml.loads((Path(cli.__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
    found = set()
    for requirement in map(Requirement, project["optional-dependencies"][extra]):
        found |= (
            set().union(*map(brought, requirement.extras)) if requirement.name == "shardlib" else {requirement.name}
        )
    return {name.lower() for name in found}


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", "", "9" * 5000])
def test_a_count_is_a_whole_number_from_one(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a whole number, at least 1"):
        commandline.at_least_one(text)
    assert commandline.at_least_one("12") == 12


def test_the_usage_says_where_pytests_arguments_go_whatever_stands_in_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--margin", metavar="PER%")

    name = put(monkeypatch, cli.PROGRAM, add_arguments=add_arguments)
    assert cli.main([name, "--help"]) == 0
    assert f"usage: shardlib {name} [-h] [--margin PER%] [-- pytest arguments]\n" in capsys.readouterr().out
