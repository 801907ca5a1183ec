"""Text of any size from bytes of any kind, in bounded memory: gzip or plain, UTF-8 or UTF-16, with line numbers."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Any

from shardlib.weights.findings import Unread

CHUNK_BYTES = 1 << 18
"""Small enough that most of a log's noise is passed over whole, large enough that a chunk costs little (measured)."""
MAX_LINE_CHARACTERS = 4 << 20
"""A longer line is dropped, and counted: ids of 10,000 characters are real, four million are not."""

_GZIP = b"\x1f\x8b"
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_SNIFFED_BYTES = 4096


def opened(stream: Any) -> io.BufferedReader:
    """Returns the bytes of a binary stream, unpacked if they are gzip.

    Errors of a broken archive (EOFError, OSError, zlib.error) come from reading; `chunks` turns them into a place.
    """
    plain = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)
    if plain.peek(2)[:2] != _GZIP:
        return plain
    unpacked: Any = gzip.GzipFile(fileobj=plain)
    return io.BufferedReader(unpacked)


def encoding(head: bytes) -> str | None:
    """Returns the name of a text's encoding from its first bytes, or None if they are no text.

    UTF-16 without a mark is told by its zeros: most characters of a log are ASCII.
    """
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    head = head[:_SNIFFED_BYTES]
    zeros_even, zeros_odd = head[::2].count(0), head[1::2].count(0)
    if not zeros_even and not zeros_odd:
        return "utf-8"
    if zeros_odd > len(head) // 4 and zeros_even < zeros_odd // 4:
        return "utf-16-le"
    if zeros_even > len(head) // 4 and zeros_odd < zeros_even // 4:
        return "utf-16-be"
    return None if (zeros_even + zeros_odd) > len(head) // 100 else "utf-8"


def chunks(stream: io.BufferedReader, unread: Unread) -> Iterator[tuple[int, str]]:
    """Yields pieces of whole lines, each with the number of its first line; the last piece may lack its line's end.

    Bytes that are no text of the encoding become U+FFFD. A broken archive ends the text and is counted.
    """
    name = encoding(_peek(stream))
    if name is None:
        unread.add(None, "not text")
        return
    decoder = codecs.getincrementaldecoder(name)("replace")
    line, rest, more = 1, "", True
    while more:
        data = _read(stream, unread, line)
        more = bool(data)
        text = rest + decoder.decode(data, final=not more)
        cut = text.rfind("\n") + 1 if more else len(text)
        if cut:
            yield line, text[:cut]
            line += text.count("\n", 0, cut)
        rest = text[cut:]
        if len(rest) > MAX_LINE_CHARACTERS:
            unread.add(line, f"a line of more than {MAX_LINE_CHARACTERS} characters")
            rest = " "  # its end is read as a line of noise


def _peek(stream: io.BufferedReader) -> bytes:
    try:
        return stream.peek(_SNIFFED_BYTES)
    except (EOFError, OSError, zlib.error):
        return b""  # reading says what is wrong


def _read(stream: io.BufferedReader, unread: Unread, line: int) -> bytes:
    try:
        return stream.read1(CHUNK_BYTES)
    except (EOFError, OSError, zlib.error) as err:
        unread.add(line, f"cannot be read on: {err}")
        return b""
