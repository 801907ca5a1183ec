from __future__ import annotations

import pytest

from shardlib import errors
from shardlib.errors import Exit, ShardlibError

FAMILIES: list[type[ShardlibError]] = [ShardlibError, *ShardlibError.__subclasses__()]


def test_every_family_is_found_here() -> None:
    defined = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, ShardlibError)}
    assert set(FAMILIES) == defined


def test_each_family_has_its_own_exit_code() -> None:
    codes = [family.exit_code for family in FAMILIES]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_defines_its_code_itself(family: type[ShardlibError]) -> None:
    assert "exit_code" in vars(family)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_code_is_pytests_or_a_signals_or_argos(family: type[ShardlibError]) -> None:
    assert 10 <= family.exit_code < 126  # pytest has 0-5; shells give 126 and up to signals and failed starts
    assert family.exit_code not in {64, 137, 143}


def test_a_finished_commands_codes_are_not_a_familys() -> None:
    shared = {family.exit_code for family in FAMILIES} & set(Exit)
    assert shared == {Exit.INFRASTRUCTURE}  # the one that asks for another try, however it came about


def test_exit_codes_are_the_documented_ones() -> None:
    assert {code.name: code.value for code in Exit} == {"GREEN": 0, "RED": 1, "BUG": 70, "INFRASTRUCTURE": 75}
