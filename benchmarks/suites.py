"""Suites to pack: real duration sets as committed in public repositories, repeated, and with modes drawn by file.

The sets are not part of the project: the environment variable SHARDLIB_DATA names their folder, `../shared/data` beside the
checkout by default. README.md (Benchmarks) says what is in it.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shardlib.durations import load
from shardlib.model import CollectedTest, Mode

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
_WIDTH_WORDS = {"one": 1, "two": 2, "four": 4, "eight": 8}

# Modes drawn by file: an assumption, shaped like a training library's suite (most files share one GPU).
_MIX = (
    (0.70, Mode.CONCURRENT, 1),
    (0.06, Mode.ISOLATED, 2),
    (0.06, Mode.ISOLATED, 4),
    (0.06, Mode.ISOLATED, 8),
    (0.12, Mode.SEQUENTIAL, 8),
)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tests and their durations in seconds (a key without `::` is a file's setup)."""

    name: str
    tests: tuple[CollectedTest, ...]
    durations: dict[str, float]

    @property
    def longest_seconds(self) -> float:
        """The longest single test."""
        return max(self.durations[test.id] for test in self.tests)

    @property
    def slot_seconds(self) -> float:
        """Seconds of all tests, each times the GPUs it holds."""
        return sum(self.durations[test.id] * max(1, test.gpus) for test in self.tests)


def data_folder() -> Path | None:
    """Return the folder of the real duration sets, or `None` where there is none."""
    folder = Path(os.environ.get("SHARDLIB_DATA") or _BESIDE) / "durations"
    return folder if folder.is_dir() else None


def real_suites(folder: Path) -> list[Suite]:
    """Return every real set: tests of one GPU, but for the two that say how many GPUs each file needs."""
    suites = []
    for path in sorted(folder.glob("*.json")):
        name = path.stem.partition("__")[2]
        text = path.read_text(encoding="utf-8")
        if path.stem.startswith("antgroup__sglang"):
            suites.append(_sglang(name, json.loads(text)))
        elif path.stem.startswith("vllm-project"):
            suites.append(_ascend(name, json.loads(text)))
        else:
            durations = load(path)
            tests = (_test(key, key.partition("::")[0], Mode.CONCURRENT, 1) for key in sorted(durations))
            suites.append(Suite(name=name, tests=tuple(tests), durations=durations))
    return suites


def repeated(suite: Suite, copies: int) -> Suite:
    """Return the suite so many times, files and node ids suffixed."""
    tests: list[CollectedTest] = []
    durations: dict[str, float] = {}
    for copy in range(copies):
        ending = f"~{copy}"
        for key, seconds in suite.durations.items():
            durations[_renamed(key, ending)] = seconds
        tests += [replace(test, id=_renamed(test.id, ending), file=test.file + ending) for test in suite.tests]
    return Suite(name=f"{suite.name} x{copies}", tests=tuple(tests), durations=durations)


def filled(suite: Suite, slots: int, least_files: int = 0) -> Suite:
    """Return the suite, repeated until its area gives each slot twice the longest test, and it has so many files."""
    by_area = 2 * suite.longest_seconds * slots / suite.slot_seconds
    by_files = least_files / len({test.file for test in suite.tests})
    return repeated(suite, max(1, int(-(-by_area // 1)), int(-(-by_files // 1))))


def mixed(suite: Suite, seed: int) -> Suite:
    """Return the suite with a mode drawn for each file, and setups: 15 s for three files in ten, else half a second.

    No setup is longer than the file's own tests together.
    """
    rng = random.Random(seed)
    totals: dict[str, float] = defaultdict(float)
    for test in suite.tests:
        totals[test.file] += suite.durations[test.id]
    drawn: dict[str, tuple[Mode, int]] = {}
    durations = dict(suite.durations)
    for file in sorted(totals):
        (_, mode, gpus), *_ = rng.choices(_MIX, [share for share, *_ in _MIX])
        drawn[file] = (mode, gpus)
        durations[file] = min(15.0 if rng.random() < 0.3 else 0.5, totals[file])
    tests = tuple(replace(test, mode=drawn[test.file][0], gpus=drawn[test.file][1]) for test in suite.tests)
    return Suite(name=f"{suite.name} mixed", tests=tests, durations=durations)


def _sglang(name: str, entries: Sequence[dict[str, object]]) -> Suite:
    """Estimates per file; the suite's name says how many GPUs. Each file launches servers: isolated."""
    tests: dict[str, CollectedTest] = {}
    durations: dict[str, float] = {}
    for entry in entries:
        if entry["est"] is None:
            continue
        gpus = re.search(r"(\d+)-gpu", str(entry["suite"]))
        file = f"{entry['suite']}/{entry['file']}"
        key = f"{file}::all"
        tests[key] = _test(key, file, Mode.ISOLATED, int(gpus[1]) if gpus else 1)
        durations[key] = float(str(entry["est"]))
    return Suite(name=name, tests=tuple(tests.values()), durations=durations)


def _ascend(name: str, entries: dict[str, float]) -> Suite:
    """Estimates per file; a folder's name says how many cards. Each file launches servers: isolated."""
    tests = []
    durations = {}
    for file, seconds in entries.items():
        cards = re.search(r"(one|two|four|eight)_card", file)
        key = file if "::" in file else f"{file}::all"
        tests.append(_test(key, file.partition("::")[0], Mode.ISOLATED, _WIDTH_WORDS[cards[1]] if cards else 1))
        durations[key] = float(seconds)
    return Suite(name=name, tests=tuple(tests), durations=durations)


def _test(key: str, file: str, mode: Mode, gpus: int) -> CollectedTest:
    return CollectedTest(id=key, file=file, mode=mode, gpus=gpus)


def _renamed(key: str, ending: str) -> str:
    file, separator, rest = key.partition("::")
    return file + ending + separator + rest
