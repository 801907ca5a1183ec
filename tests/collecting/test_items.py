from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from shardlib.collecting.items import file_of, show


class Colour(Enum):
    RED = 1


class Loud:
    def __repr__(self) -> str:
        raise AssertionError("foreign code was called")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("foreign code was called")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        ("a'b", '"a\'b"'),
        (None, "None"),
        (Colour.RED, "Colour.RED"),
        ([1, "a"], "list(1, 'a')"),
        ((), "tuple()"),
        (Colour, "Colour"),
        (file_of, "file_of"),
        pytest.param(10**5000, "a huge int", id="huge"),
        pytest.param(Loud(), f"<{__name__}.Loud>", id="loud"),
        ([Loud()], "list(Loud)"),
    ],
)
def test_a_parameter_is_shown_without_calling_foreign_code(value: object, text: str) -> None:
    assert show(value) == text


def test_a_parameter_is_shown_in_at_most_200_characters_and_a_list_may_hold_itself() -> None:
    assert len(show("x" * 10_000)) == 200
    loop: list[object] = []
    loop.append(loop)
    assert show(loop) == "list(list)"


def test_a_file_is_relative_to_rootdir_or_absolute() -> None:
    assert file_of(Path("/r/a/b.py"), Path("/r")) == "a/b.py"
    assert file_of(Path("/other/b.py"), Path("/r")) == "/other/b.py"
    assert file_of(Path("/rr/b.py"), Path("/r")) == "/rr/b.py"
