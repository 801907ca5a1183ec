from __future__ import annotations

import html
import re

import pytest
from _pytest.junitxml import bin_xml_escape
from hypothesis import given
from hypothesis import strategies as st

from shardlib.escape import markdown, printable, xml

ANY = st.text(st.characters())  # lone surrogates and control characters included


@given(ANY)
def test_xml_is_escaped_as_pytest_does(text: str) -> None:
    if not re.search("[\x7f\U00010000-\U0010ffff]", text):  # older versions of pytest treat these otherwise
        assert xml(text) == bin_xml_escape(text)


@given(ANY)
def test_a_printable_text_is_one_line_that_any_terminal_survives(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    shown.encode()
    assert len(shown) <= 310


@given(ANY)
def test_markdown_leaves_no_syntax_and_says_the_same(text: str) -> None:
    shown = markdown(text)
    inner = shown.removeprefix("<code>").removesuffix("</code>")
    assert re.fullmatch(r"(?:[^\W_]| |&#\d+;)*", inner)
    assert html.unescape(inner) == printable(text)


@pytest.mark.parametrize(
    "text", ["::error::x", "`@maintainer`", "</code><script>", "|", "\x1b[31m", "\u202e", "[x](http://y)", "${{ x }}"]
)
def test_known_tricks_are_inert(text: str) -> None:
    assert text not in markdown(text)
