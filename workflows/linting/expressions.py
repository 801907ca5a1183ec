"""The part of Argo's expression language that our workflows use, parsed far enough to name a mistake before a pod does.

Argo compiles a retry expression only when a pod has failed; one with a typo then makes the node an Error. The grammar is
that of expr-lang: `?:`, `||`, `&&`, `!`, comparisons and text operators, literals, lists, names, calls. Recursive descent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FUNCTIONS = frozenset({"asInt", "asFloat", "string", "toJson", "len"})
_OPERATORS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in", "contains", "startsWith", "endsWith", "matches"})
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\|\||&&|==|!=|<=|>=|[!<>()\[\],.?:]))"
)


class ExpressionError(Exception):
    """An expression that Argo could not compile; says where."""


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def names(expression: str) -> list[str]:
    """Returns the dotted names that an expression uses, in order; `a['b'].c` is `a.b.c`.

    Raises:
        ExpressionError: it does not parse, or calls what is no function.
    """
    parser = _Parser(expression)
    parser.ternary()
    if parser.token.kind != "end":
        raise parser.error("expected an operator or the end")
    return parser.names


def _tokens(expression: str) -> list[_Token]:
    found, at = [], 0
    while expression[at:].strip():
        match = _TOKEN.match(expression, at)
        if match is None:
            raise ExpressionError(
                f"at {at}: {expression[at:].strip()[:20]!r} is no token (`==` compares, `=` does not)"
            )
        kind = match.lastgroup or ""
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return [*found, _Token("end", "", len(expression))]


class _Parser:
    """One expression on its way through the grammar, lowest precedence first."""

    def __init__(self, expression: str) -> None:
        self.names: list[str] = []
        self._tokens = _tokens(expression)
        self._next = 0

    @property
    def token(self) -> _Token:
        """The next token."""
        return self._tokens[self._next]

    def error(self, expected: str) -> ExpressionError:
        """Returns the error at the next token."""
        return ExpressionError(f"at {self.token.at}: {expected}, not {self.token.text or 'the end'!r}")

    def ternary(self) -> None:
        """Parses one whole expression."""
        self._disjunction()
        if self._take("?"):
            self.ternary()
            self._need(":")
            self.ternary()

    def _disjunction(self) -> None:
        self._conjunction()
        while self._take("||") or self._take("or"):
            self._conjunction()

    def _conjunction(self) -> None:
        self._negation()
        while self._take("&&") or self._take("and"):
            self._negation()

    def _negation(self) -> None:
        while self._take("!") or self._take("not"):
            pass
        self._value()
        if self._take("not") and self.token.text != "in":
            raise self.error("expected `in` after `not`")
        if self.token.text in _OPERATORS and self.token.kind != "text":
            self._next += 1
            self._value()

    def _value(self) -> None:
        token = self.token
        if token.kind in ("text", "number"):
            self._next += 1
        elif self._take("("):
            self.ternary()
            self._need(")")
        elif self._take("["):
            self._list("]")
        elif token.kind == "name" and token.text not in _OPERATORS:
            self._next += 1
            self._name(token)
        else:
            raise self.error("expected a value")

    def _name(self, first: _Token) -> None:
        if self._take("("):
            if first.text not in FUNCTIONS:
                raise ExpressionError(
                    f"at {first.at}: no function {first.text!r}; known: {', '.join(sorted(FUNCTIONS))}"
                )
            self._list(")")
            return
        parts = [first.text]
        while True:
            if self._take("."):
                parts.append(self._part("name"))
            elif self._take("["):
                parts.append(self._part("text")[1:-1])
                self._need("]")
            else:
                break
        if parts not in (["true"], ["false"], ["nil"]):
            self.names.append(".".join(parts))

    def _part(self, kind: str) -> str:
        if self.token.kind != kind:
            raise self.error(f"expected a {kind}")
        self._next += 1
        return self._tokens[self._next - 1].text

    def _list(self, end: str) -> None:
        if self._take(end):
            return
        self.ternary()
        while self._take(","):
            self.ternary()
        self._need(end)

    def _take(self, text: str) -> bool:
        if self.token.text != text or self.token.kind == "text":
            return False
        self._next += 1
        return True

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self.error(f"expected {text!r}")
