"""Tests whose ids and failures look like templates, code, markup, or lines that programs look for in logs."""

from __future__ import annotations

import warnings

import pytest
from control import there

TEXTS = [
    "{{workflow.name}}",
    "{{=1+1}}",
    "{{=sprig.env('HOME')}}",
    "$(HOME) $$ ${HOME} `id` $(id)",
    "'; id; '\"",
    "two\nlines\r\nand \x1b[31mred\x1b[0m \x07",
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>",
    "[link](javascript:alert(1)) ![](http://example.com/x.png) @somebody #1 | a | b |",
    "::error file=a.py,line=1::text",
    "%0A::set-output name=a::b",
    "]]></failure><testcase name='forged'/>",
    'PYTEST-DURATION 999.000 passed concurrent "tests/test_quick_0.py::test_passes[0]"',
    "‮reversed ​ ﻿ \ud800",
]


@pytest.mark.parametrize("text", TEXTS)
def test_says(text: str) -> None:
    print(text)
    print(f"\n{text}\n")
    warnings.warn(text.encode("utf-8", "replace").decode(), stacklevel=1)
    assert there("mended"), text


class TestNamed:
    @pytest.mark.parametrize("number", range(2), ids=["{{workflow.uid}}", "{{=workflow.name}}"])
    def test_raises(self, number: int) -> None:
        if not there("mended"):
            raise RuntimeError("\n\n::error::{{workflow.name}}\n" + "{{=" * 1000 + "\x1b]0;title\x07" + "x" * 100_000)
