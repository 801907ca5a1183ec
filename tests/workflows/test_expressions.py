from __future__ import annotations

import pytest

from workflows.linting.expressions import ExpressionError, names
from workflows.pods import RETRY_EXPRESSION


@pytest.mark.parametrize(
    ("expression", "used"),
    [
        (RETRY_EXPRESSION, ["lastRetry.message", "lastRetry.status", "lastRetry.exitCode", "lastRetry.message"]),
        ("asInt(lastRetry.exitCode) == 75", ["lastRetry.exitCode"]),
        ("a['b-c'].d matches '^x$' ? a['b-c'].d : 'none'", ["a.b-c.d", "a.b-c.d"]),
        ('not (x in [1, 2.5, "y"]) and true', ["x"]),
        ("x not in []", ["x"]),
        ("!a || b && !c", ["a", "b", "c"]),
        ("'it\\'s' contains x", ["x"]),
        ("a > 1 == false", []),
    ],
)
def test_names_of_an_expression(expression: str, used: list[str]) -> None:
    if not used:
        with pytest.raises(ExpressionError):
            names(expression)
    else:
        assert names(expression) == used


@pytest.mark.parametrize(
    "expression",
    [
        "lastRetry.exitCode = 75",
        "lastRetry.exitCode == ",
        "lastRetry.exitCode == 75 ||",
        "(lastRetry.exitCode == 75",
        "lastRetry.exitCode == 75)",
        "lastRetry. == 1",
        "in ['a']",
        "int(lastRetry.exitCode) == 1",
        "a b",
        "a ? b",
        "['a'",
        "'open",
        "",
        "a['b",
        "x[0]",
    ],
)
def test_what_argo_could_not_compile_is_refused_with_its_place(expression: str) -> None:
    with pytest.raises(ExpressionError, match=r"at \d+: "):
        names(expression)
