"""A durations file (pytest-split's `.test_durations`, our `report/durations.json`) as a run of samples."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator

from shardlib.durations import MAX_BYTES, MAX_SECONDS
from shardlib.errors import DurationsError
from shardlib.fields import parse as parse_json
from shardlib.weights import streams
from shardlib.weights.findings import Found, Unread
from shardlib.weights.samples import Sample


def parse(stream: io.BufferedReader, unread: Unread) -> Iterator[Found]:
    """Yields the file's run; entries that are no seconds of a test are counted, a file of another shape is not used.

    pytest-split keeps the entries of tests that did not run: who compares with an earlier file sees equal seconds.
    """
    try:
        data = stream.read(MAX_BYTES + 1)
        text = data.decode(streams.encoding(data) or "utf-8")
        body = parse_json(text, unread.source, DurationsError) if len(data) <= MAX_BYTES else None
    except (DurationsError, EOFError, OSError, zlib.error, UnicodeDecodeError) as err:
        unread.add(None, f"no durations: {err}")
        return
    if isinstance(body, list):  # pytest-split before 0.2
        pairs = [tuple(pair) for pair in body if isinstance(pair, list) and len(pair) == 2]
        unread.total += len(body) - len(pairs)
    elif isinstance(body, dict):
        pairs = list(body.items())
    else:
        unread.add(None, f"no durations: a JSON {type(body).__name__}, or more than {MAX_BYTES} bytes")
        return
    samples: dict[str, Sample] = {}
    for key, value in pairs:
        if not isinstance(key, str) or not key or type(value) not in (int, float) or not 0 <= value <= MAX_SECONDS:
            unread.add(None, f"no seconds of a test: {json.dumps([key, value])[:100]}")
            continue
        samples[key] = Sample(id=key, seconds=float(value))
    unread.seen["rows"] += len(samples)
    if samples:
        yield Found(kind="pytest-split", when=None, samples=tuple(samples.values()))
