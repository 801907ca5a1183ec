"""Text of unknown origin made safe for a terminal, for Markdown and for XML: node ids and reasons are hostile. Pure."""

from __future__ import annotations

import html
import re

_NOT_XML = re.compile("[^\t\n\r\u0020-\u007e\u0080-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SYNTAX = re.compile(r"[^\w ]|_")


def printable(text: str, limit: int = 300) -> str:
    """Returns one line that moves no cursor and hides nothing: what cannot be printed is shown as its escape.

    Text longer than `limit` characters is cut in its middle, since node ids differ at both ends.
    """
    shown = "".join(char if char.isprintable() else _escaped(char) for char in text)
    if len(shown) <= limit:
        return shown
    return f"{shown[: limit // 2]} ... {shown[-(limit // 2) :]}"


def markdown(text: str, limit: int = 300) -> str:
    """Returns `text` as one line of code in Markdown or HTML, with nothing left that either could take for syntax.

    GitHub turns `@name` and `#1` into links after it has resolved entities, but not inside code.
    """
    return f"<code>{_SYNTAX.sub(_entity, printable(text, limit))}</code>"


def xml(text: str) -> str:
    """Returns `text` with the characters that XML cannot hold shown as `#x07`, as pytest's junitxml shows them."""
    return _NOT_XML.sub(
        lambda match: f"#x{ord(match[0]):02X}" if ord(match[0]) <= 0xFF else f"#x{ord(match[0]):04X}", text
    )


def xml_text(text: str, limit: int = 300) -> str:
    """Returns `text` for the content or a quoted attribute of HTML or SVG: lines stay, control characters are shown."""
    shown = "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in text)
    if len(shown) > limit:
        shown = f"{shown[: limit // 2]} ... {shown[-(limit // 2) :]}"
    return html.escape(shown)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _entity(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"
