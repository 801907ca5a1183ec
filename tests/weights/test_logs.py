"""Tables and blocks in logs of every shape: prefixes, colours, overwritten lines, interleaved shards, cut-off ends."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlib.weights import logs, podlines, streams
from shardlib.weights.findings import Found, Unread

RULE = "=" * 30
TABLE = [
    f"{RULE} slowest durations {RULE}",
    "1.50s call     tests/test_a.py::test_one[x y]",
    "0.25s setup    tests/test_a.py::test_one[x y]",
    "0.05s teardown tests/test_a.py::test_one[x y]",
    "0.75s call     tests/test_a.py::C::test_two",
    "",
    "(3 durations < 0.005s hidden.  Use -vv to show these durations.)",
    f"{RULE} 2 passed in 2.60s {RULE}",
]
ROWS = {"tests/test_a.py::test_one[x y]": 1.8, "tests/test_a.py::C::test_two": 0.75}
BLOCK = [
    "PYTEST-DURATION-BEGIN v1 shard=03 attempt=1 group=g00012 tests=3",
    'PYTEST-DURATION 0.000 skipped concurrent "a.py::skipped"',
    'PYTEST-DURATION 1.234 passed concurrent "a.py::first[\\u00e9 \\" x]"',
    'PYTEST-DURATION 0.500 failed concurrent "a.py::second"',
    "PYTEST-DURATION-END group=g00012",
]


def parse(data: bytes | str | Sequence[str]) -> tuple[list[Found], Unread]:
    if not isinstance(data, bytes):
        data = (data if isinstance(data, str) else "\n".join(data) + "\n").encode("utf-8", "surrogatepass")
    unread = Unread(source="log")
    return list(logs.parse(streams.opened(io.BytesIO(data)), unread)), unread


def rows(found: Found) -> dict[str, float]:
    return {sample.id: sample.seconds for sample in found.samples}


def one(data: bytes | str | Sequence[str]) -> Found:
    found, unread = parse(data)
    assert unread.places == []
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("prefix", "pod"),
    [
        ("2026-09-11T15:05:09.3104947Z ", None),
        ("[2026-09-11T15:05:09.310Z] ", None),
        ("2026-09-11 15:05:09,310 ", None),
        ("2026-09-11T15:05:09+02:00 stdout F ", None),
        ("2026-09-11T15:05:09.310Z 01O ", None),
        ("15:05:09 ", None),
        ("[15:05:09] ", None),
        ("build\t08-Jul-2016 08:46:49\t", "build"),
        ("[pod/gpu-ci-7-shard-03/main] ", "gpu-ci-7-shard-03/main"),
        ("gpu-ci-7-gpu-tests-123: ", "gpu-ci-7-gpu-tests-123"),
        ("shard-03  | ", "shard-03"),
        ("gpu-ci-7-abc main ", "gpu-ci-7-abc"),
        ("2026-09-11T15:05:09Z shard-03: [gw0] ", "shard-03"),
        ("\x1b[36mshard-03 |\x1b[0m ", "shard-03"),
        ("        ", None),
    ],
)
def test_what_other_tools_put_before_a_line_is_taken_off(prefix: str, pod: str | None) -> None:
    table = one([f"{prefix}{line}" for line in TABLE])
    assert rows(table) == ROWS
    assert {sample.pod for sample in table.samples} == {pod}
    block = one([f"{prefix}{line}" for line in BLOCK])
    assert rows(block) == {"a.py::skipped": 0.0, 'a.py::first[é " x]': 1.234, "a.py::second": 0.5}
    assert {sample.pod for sample in block.samples} == {"03/1"}


def test_a_worker_prefix_names_the_worker() -> None:
    assert {sample.worker for sample in one([f"[gw3] {line}" for line in TABLE]).samples} == {"gw3"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_bytes_of_any_encoding_are_read(encoding: str, end: str, packed: bool) -> None:
    data = (end.join(TABLE) + end).encode(encoding)
    if encoding == "utf-16-be":
        data = b"\xfe\xff" + data
    assert rows(one(gzip.compress(data) if packed else data)) == ROWS


def test_dockers_json_lines_are_unwrapped() -> None:
    lines = [json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2026-09-11T15:05:09.31Z"}) for line in TABLE]
    lines = [line.replace('{"log": ', '{"log":') for line in lines]
    found = one(lines)
    assert rows(found) == ROWS
    assert found.when == pytest.approx(1789139109.31)


def test_a_progress_bar_that_overwrote_a_line_hides_nothing() -> None:
    bar = "".join(f"\r{percent:3}% |#####     |" for percent in range(0, 100, 7))
    lines = [line if "call" not in line else f"train {bar}\r{line}\r" for line in TABLE]
    found, _ = parse(lines)
    assert [rows(each) for each in found] == [ROWS]


@pytest.mark.parametrize(
    "header", ["slowest durations", "slowest test durations", "slowest 4 durations", "slowest 10 test durations"]
)
@pytest.mark.parametrize(
    "end", ["2 passed in 2.60s", "2 passed in 2.60 seconds", "1 failed, 1 passed in 61.2s (0:01:01)"]
)
def test_old_and_new_wordings_are_known(header: str, end: str) -> None:
    lines = [f"{RULE} {header} {RULE}", *TABLE[1:5], f"{RULE} {end} {RULE}"]
    found, unread = parse(lines + lines)
    assert [rows(each) for each in found] == [ROWS, ROWS]
    assert unread.total == 0
    longest_only = any(character.isdigit() for character in header)
    assert {("truncated" in sample.flags) for each in found for sample in each.samples} == {longest_only}


def test_interleaved_shards_are_pods_of_one_run() -> None:
    other = [line.replace("test_a", "test_b") for line in TABLE]
    lines = [
        text for pair in zip(TABLE, other, strict=True) for text in (f"shard-01: {pair[0]}", f"shard-02: {pair[1]}")
    ]
    found = one(lines)
    assert {(sample.pod, sample.id.partition("::")[0]) for sample in found.samples} == {
        ("shard-01", "tests/test_a.py"),
        ("shard-02", "tests/test_b.py"),
    }
    assert len(found.samples) == 4


def test_interleaved_shards_without_prefixes_are_still_one_run() -> None:
    other = [line.replace("test_a", "test_b") for line in TABLE]
    lines = [line for pair in zip(TABLE, other, strict=True) for line in pair]
    assert rows(one(lines)) == {**ROWS, **{key.replace("test_a", "test_b"): value for key, value in ROWS.items()}}


def test_a_table_printed_twice_is_one_run() -> None:
    assert rows(one([*TABLE[:-1], *TABLE])) == ROWS


def under(pod: str, lines: Sequence[str]) -> list[str]:
    """A pod's lines, with its name before each and tests of its own."""
    return [f"{pod}: {line.replace('test_a', f'test_{pod}')}" for line in lines]


def pods(found: list[Found]) -> list[set[str | None]]:
    return [{sample.pod for sample in each.samples} for each in found]


def test_three_sessions_are_three_runs() -> None:
    assert [rows(each) for each in parse(TABLE * 3)[0]] == [ROWS] * 3


def test_pods_that_were_logged_in_turn_are_one_run_each_time_around() -> None:
    found, _ = parse(under("p1", TABLE * 2) + under("p2", TABLE * 2))
    assert pods(found) == [{"p1", "p2"}, {"p1", "p2"}]


def test_other_pods_with_the_same_tests_are_another_run() -> None:
    lines = [line for run in "abcd" for pod in ("x", "y") for line in under(pod, TABLE)]
    lines = [f"run-{'abcd'[at // (2 * len(TABLE))]}-{line}" for at, line in enumerate(lines)]
    assert pods(parse(lines)[0]) == [{f"run-{run}-x", f"run-{run}-y"} for run in "abcd"]


def test_runs_are_handed_out_while_the_log_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CHUNK_BYTES", 1000)
    lines = [f"run-{number}: {line}" for number in range(50) for line in TABLE + ["noise"] * 1000]
    stream = streams.opened(io.BytesIO("\n".join(lines).encode()))
    next(logs.parse(stream, Unread(source="log")))
    assert stream.tell() < 5 * len("\n".join(lines)) / 50  # two runs are open, and buffers are read ahead


def test_a_session_without_rows_is_no_run() -> None:
    empty = [f"{RULE} test session starts {RULE}", "a.py::t PASSED [100%]", f"{RULE} 1 passed in 0.1s {RULE}"]
    found, _ = parse(under("p1", [*empty, *TABLE]) + under("p2", TABLE))
    assert pods(found) == [{"p1", "p2"}]


def test_what_does_not_belong_into_a_table_is_counted_with_its_place() -> None:
    found, unread = parse([*TABLE[:3], "a stray line", "1.00s call     no_node_id", *TABLE[3:]])
    assert [rows(each) for each in found] == [ROWS]
    assert [place.partition(": ")[0] for place in unread.places] == ["log:4", "log:5"]


def test_a_table_whose_end_is_lost_ends_and_is_marked() -> None:
    found, unread = parse([*TABLE[:3], *(f"other output {number}" for number in range(1000))])
    assert unread.total == podlines.PATIENCE
    assert {sample.flags for each in found for sample in each.samples} == {("truncated",)}


def test_prose_about_seconds_is_no_row() -> None:
    found, unread = parse(
        ["  4.38s  session setup (one-time)", "took 1.0s call of a::b", "1.0s call by x y::z", "0.1s call x"]
    )
    assert (found, unread.total) == ([], 0)


def test_a_threshold_that_hides_much_marks_the_rows() -> None:
    lines = [line.replace("0.005s", "1s") for line in TABLE]
    assert all("truncated" in sample.flags for sample in one(lines).samples)


def test_a_test_whose_call_is_missing_from_a_full_table_did_not_run() -> None:
    lines = [TABLE[0], "0.00s setup    a.py::t", "0.10s call     a.py::u", f"{RULE} 1 passed in 0.2s {RULE}"]
    assert [(sample.id, sample.flags) for sample in one(lines).samples] == [
        ("a.py::t", ("truncated",)),
        ("a.py::u", ()),
    ]


def test_a_limit_in_the_head_marks_who_reached_it() -> None:
    lines = [f"{RULE} test session starts {RULE}", "timeout: 1.5s", *TABLE]
    assert [sample.flags for sample in one(lines).samples] == [("timed_out",), ()]


def test_skips_and_failures_come_from_progress_and_summary() -> None:
    summary = [
        "= short test summary info =",
        "FAILED tests/test_a.py::C::test_two - Failed: Timeout (>0.7s) from pytest-timeout.",
    ]
    lines = ["tests/test_a.py::test_one[x y] SKIPPED (no GPU, PASSED x) [ 50%]", *TABLE[:-1], *summary, TABLE[-1]]
    assert {sample.id: (sample.outcome, sample.flags) for sample in one(lines).samples} == {
        "tests/test_a.py::test_one[x y]": ("skipped", ("skipped",)),
        "tests/test_a.py::C::test_two": ("failed", ("timed_out", "failed")),
    }


def test_a_block_says_shard_mode_outcome_and_who_paid_the_setup() -> None:
    found = one(BLOCK)
    assert found.kind == "block"
    assert [(s.outcome, s.mode, s.flags) for s in found.samples] == [
        ("skipped", "concurrent", ("skipped",)),
        ("passed", "concurrent", ("first",)),
        ("failed", "concurrent", ("failed",)),
    ]


def test_blocks_captured_twice_are_one_run_and_other_seconds_are_another() -> None:
    assert len(one([*BLOCK, *BLOCK]).samples) == 3
    found, _ = parse([*BLOCK, *(line.replace("1.234", "1.300") for line in BLOCK)])
    assert [rows(each)['a.py::first[é " x]'] for each in found] == [1.234, 1.3]


def test_interleaved_blocks_keep_their_shards() -> None:
    other = [line.replace("shard=03", "shard=04").replace("a.py", "b.py") for line in BLOCK]
    lines = [text for a, b in zip(BLOCK, other, strict=True) for text in (f"p3: {a}", f"p4: {b}")]
    assert {(s.pod, s.id.partition("::")[0]) for s in one(lines).samples} == {("03/1", "a.py"), ("04/1", "b.py")}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("PYTEST-DURATION 1.0 passed concurrent a.py::t", "row that is none"),
        ('PYTEST-DURATION 1.0 fine concurrent "a.py::t"', "row that is none"),
        ('PYTEST-DURATION 1.0 passed warp "a.py::t"', "row that is none"),
        ('PYTEST-DURATION nan passed cpu "a.py::t"', "row that is none"),
        ('PYTEST-DURATION 1.0 passed cpu "a.py::t', "row that is none"),
        ('PYTEST-DURATION 1.0 passed cpu "\\u"', "row that is none"),
        ("PYTEST-DURATION-END group=g1", "without its beginning"),
        ("PYTEST-DURATION-BEGIN v1 shard=03", "first line that is none"),
        ("PYTEST-DURATION-BEGIN v2 shard=03 attempt=0 group=g1 tests=0", "version v2"),
    ],
)
def test_a_broken_block_line_is_counted_with_its_place(line: str, why: str) -> None:
    found, unread = parse([line])
    assert found == []
    assert unread.places[0].startswith("log:1: ")
    assert why in unread.places[0]


def test_a_block_that_lacks_rows_or_its_end_is_said() -> None:
    _, unread = parse([*BLOCK[:2], *BLOCK[3:]])
    assert unread.places == ["log:4: the block of g00012 has 3 tests, 2 were read"]
    _, unread = parse(BLOCK[:3])
    assert unread.places == ["log: the block of g00012 in 03/1 has no end: 2 rows read"]


def test_a_broken_archive_keeps_what_was_read_and_says_where_it_ends() -> None:
    data = gzip.compress("\n".join([*TABLE, *(f"{n} {'x' * 50} {n * 7919 % 1000003}" for n in range(20000))]).encode())
    found, unread = parse(data[: len(data) // 2])
    assert [rows(each) for each in found] == [ROWS]
    assert unread.total == 1
    assert "cannot be read on" in unread.places[0]


def test_a_line_without_end_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_LINE_CHARACTERS", 1000)
    found, unread = parse(["x" * 200_000, *TABLE])
    assert [rows(each) for each in found] == [ROWS]
    assert unread.total >= 1


def test_bytes_that_are_no_text_are_said() -> None:
    found, unread = parse(b"\0\0ab" * 5000)
    assert (found, unread.places) == ([], ["log: not text"])


ids = st.builds(
    "{}::{}".format,
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters=":\ufffd"), min_size=1, max_size=10),
    st.text(
        st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs"], exclude_characters="\ufffd")
        | st.sampled_from("[]: -"),
        max_size=30,
    ).map(lambda text: f"t[{text}]"),
)
seconds = st.integers(1, 10**8).map(lambda value: value / 100)
tables = st.dictionaries(
    ids, st.dictionaries(st.sampled_from(["setup", "call", "teardown"]), seconds, min_size=1), min_size=1
)


@given(table=tables, prefix=st.sampled_from(["", "2026-09-11T15:05:09Z ", "pod-1: ", "\x1b[1m", "  "]))
def test_a_table_that_pytest_would_print_is_read_as_it_was(table: dict[str, dict[str, float]], prefix: str) -> None:
    lines = [TABLE[0]]
    lines += [f"{value:.2f}s {phase:8} {key}" for key, phases in table.items() for phase, value in phases.items()]
    found, unread = parse([f"{prefix}{line}" for line in [*lines, TABLE[-1]]])
    assert unread.places == []
    expected = {key: min(1e7, sum(phases.values())) for key, phases in table.items()}
    assert [rows(each) for each in found] == [pytest.approx(expected)]


block_rows = st.dictionaries(
    st.text(min_size=1, max_size=50), st.integers(0, 10**9).map(lambda ms: ms / 1000), max_size=10
)


@given(table=block_rows)
def test_a_block_is_read_as_it_was_written(table: dict[str, float]) -> None:
    lines = [f"PYTEST-DURATION-BEGIN v1 shard=01 attempt=0 group=g1 tests={len(table)}"]
    lines += [f"PYTEST-DURATION {value:.3f} passed cpu {json.dumps(key)}" for key, value in table.items()]
    found, unread = parse([*lines, "PYTEST-DURATION-END group=g1"])
    assert unread.places == []
    assert [rows(each) for each in found] == ([table] if table else [])


pieces = st.lists(
    st.sampled_from([*TABLE, *BLOCK, "\r", "\x1b[", "\x1b]0;", "::", "s call ", '{"log":', "\0", "é", "p: "])
    | st.text()
)


@given(
    parts=pieces, end=st.sampled_from(["\n", "", " ", "\r\n"]), encoding=st.sampled_from(["utf-8", "utf-16", "latin-1"])
)
def test_no_text_crashes_the_parser(parts: list[str], end: str, encoding: str) -> None:
    found, _ = parse(end.join(parts).encode(encoding, "replace"))
    assert all(sample.id and sample.seconds >= 0 for each in found for sample in each.samples)


@given(data=st.binary(max_size=300), packed=st.booleans())
def test_no_bytes_crash_the_parser(data: bytes, packed: bool) -> None:
    parse(gzip.compress(data)[: len(data)] if packed else data)


@pytest.mark.parametrize(
    "line",
    [
        "a::" * 300_000 + " PASSEDx",
        "a:: PASSED (" * 100_000,
        " " * 1_000_000 + "x ::",
        "=" * 500_000 + " " * 500_000 + "x ::",
        "FAILED " + "a::b - " * 100_000,
        "1 passed, " * 100_000 + "::",
        "1.0s call " + " " * 1_000_000 + "::",
        "slowest " * 100_000 + "durations ::",
        "\x1b]" * 300_000 + "::",
        "a-" * 500_000 + " main ::",
        "[" * 500_000 + "::",
        "PYTEST-DURATION " * 60_000,
    ],
    ids=lambda line: line[:12],
)
def test_no_line_takes_more_than_linear_time(line: str) -> None:
    """A pattern that tries all pairs of places in a megabyte would not end within the suite's limit."""
    found, _ = parse([*TABLE[:2], line, *TABLE[2:]])
    assert rows(found[0]) == ROWS
