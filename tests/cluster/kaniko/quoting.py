"""Words of a Dockerfile: quotes, escapes and variables. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_VARIABLE = re.compile(r"\$(?:(?P<plain>\w+)|\{(?P<name>\w+)(?:(?P<operator>:?[-+])(?P<word>[^{}]*))?\})", re.ASCII)


class DockerfileError(Exception):
    """A Dockerfile is malformed, or uses what is not implemented here."""


def error(line: int, message: str) -> DockerfileError:
    """Returns the error that says what is wrong with a line."""
    return DockerfileError(f"dockerfile parse error on line {line}: {message}")


def expand(text: str, values: Mapping[str, str], line: int) -> str:
    """Returns a word with its variables replaced, its quotes and escapes taken off."""
    out, at, quote = [], 0, ""
    while at < len(text):
        char = text[at]
        if quote == "'":
            out.append("" if char == "'" else char)
            quote = "" if char == "'" else quote
        elif char == "\\" and (not quote or text[at + 1 : at + 2] in ('"', "$", "\\")):
            out.append(text[at + 1 : at + 2])
            at += 1
        elif char == '"' or (char == "'" and not quote):
            quote = "" if quote else char
        elif char == "$":
            match = _VARIABLE.match(text, at)
            if match is None:
                raise error(line, f"{text!r}: a `$` that starts no variable that is implemented here")
            out.append(_value(match, values))
            at = match.end() - 1
        else:
            out.append(char)
        at += 1
    if quote:
        raise error(line, f"unexpected end of statement while looking for matching {quote} in {text!r}")
    return "".join(out)


def _value(match: re.Match[str], values: Mapping[str, str]) -> str:
    operator, word = match["operator"] or "", match["word"] or ""
    value = values.get(match["plain"] or match["name"])
    there = bool(value) if operator.startswith(":") else value is not None
    if operator.endswith("+"):
        return word if there else ""
    if operator.endswith("-") and not there:
        return word
    return value or ""


def split(text: str, line: int) -> list[str]:
    """Returns the words of a text, each with its quotes: a blank inside quotes or after a backslash separates none."""
    words = re.findall(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+|["'\\]""", text)
    if any(word in ('"', "'") for word in words):
        raise error(line, f"a quote is not closed: {text!r}")
    return words
