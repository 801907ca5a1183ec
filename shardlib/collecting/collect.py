"""Collecting, seen from outside: starts the child once for each number of visible devices and merges what it found.

A test must be collected as its worker will see it: `parametrize(range(device_count()))` depends on the visible devices,
a parametrized set on the hash seed. The first pass sees the whole node, since a module may skip itself on fewer devices;
then comes one pass for each width that tests have, and each test is taken from the pass of its own width.
"""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shardlib import child
from shardlib import settings as settings_module
from shardlib.collecting.document import Collection, read_test
from shardlib.errors import CollectError, SettingsError, UsageError
from shardlib.fields import short
from shardlib.model import CollectedTest
from shardlib.options import check_arguments
from shardlib.pytestrun import PytestRun
from shardlib.settings import Settings

HASH_SEED = "0"
_TAIL = 4000  # characters of the child's output in a message
_NAMED = 20  # tests or errors that a message names
# Of an outer pytest, or what would act a second time: PYTEST_ADDOPTS goes into the recorded arguments.
_NOT_INHERITED = ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")


def collect(
    args: Sequence[str],
    *,
    environ: Mapping[str, str],
    gpus: int | None = None,
    random_seed: int | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Collection:
    """Returns the tests that pytest collects with `args` in the current directory.

    Args:
        args: pytest's own arguments.
        environ: the environment of the child, but for what must be fixed.
        gpus: GPUs of a node, where they are not the setting's.
        random_seed: pytest-randomly's seed; None draws one.
        say: gets lines of progress.

    Raises:
        CollectError: collection errors, no tests, a node id twice, or pytest ended on its own.
        SettingsError: a wrong setting or marker.
        UsageError: an option that asks for something else than a test run.
    """
    folded = _addopts(environ)
    run_args = [*folded, *args]
    check_arguments(run_args)
    seed = random.SystemRandom().getrandbits(32) if random_seed is None else random_seed
    hash_seed = environ.get("PYTHONHASHSEED", "")
    base = {key: value for key, value in environ.items() if key not in _NOT_INHERITED}
    base["PYTHONHASHSEED"] = hash_seed if hash_seed.isdigit() else HASH_SEED
    request = {"args": run_args, "gpus": gpus, "random_seed": seed}

    passes: dict[int, dict[str, Any]] = {}
    todo = [_first_width(gpus)]
    while todo:
        width = todo.pop(0)
        say(f"collecting with {width} visible device{'' if width == 1 else 's'}")
        passes[width] = _pass(request, base | _devices(environ, width))
        todo = [wanted for wanted in _widths(passes) if wanted not in passes]
        if not any(answer["tests"] for answer in passes.values()):
            raise CollectError(f"pytest collected no tests; check its arguments. Its output:\n{passes[width]['tail']}")
    passes = {wanted: passes[wanted] for wanted in _widths(passes)}  # without a first guess that was wrong
    first = next(iter(passes.values()))
    settings = Settings.from_json(first["settings"], "collecting")
    tests, notes = _merge(passes, settings)
    run = PytestRun(
        version=first["version"],
        python=first["python"],
        rootdir=first["rootdir"],
        inifile=first["inifile"],
        cwd=first["cwd"],
        args=tuple(run_args),
        hash_seed=base["PYTHONHASHSEED"],
        random_seed=first["random_seed"],
    )
    if folded:
        notes.insert(0, f"PYTEST_ADDOPTS is part of the arguments: {shlex.join(folded)}")
    return Collection(pytest=run, settings=settings, tests=tests, notes=tuple(notes))


def _addopts(environ: Mapping[str, str]) -> list[str]:
    try:
        return shlex.split(environ.get("PYTEST_ADDOPTS", ""))
    except ValueError as err:
        raise UsageError(f"PYTEST_ADDOPTS={environ['PYTEST_ADDOPTS']!r} cannot be split: {err}") from err


def _first_width(gpus: int | None) -> int:
    """Returns a guess at the widest pass: pytest alone knows its rootdir, and with it the settings."""
    try:
        settings = settings_module.load(Path.cwd())
    except SettingsError:
        settings = Settings()  # if it is the rootdir's, the child says what is wrong with it
    if settings.collect_gpus is not None:
        return settings.collect_gpus
    return settings.gpus_per_node if gpus is None else gpus


def _widths(passes: Mapping[int, dict[str, Any]]) -> list[int]:
    """Returns the widths of all passes that are wanted, as far as is known, the one that gives the order first."""
    some = next(iter(passes.values()))
    settings = Settings.from_json(some["settings"], "collecting")
    if settings.collect_gpus is not None:
        return [settings.collect_gpus]
    seen = {test["gpus"] for answer in passes.values() for test in answer["tests"]}
    return [settings.gpus_per_node, *sorted(seen - {settings.gpus_per_node}, reverse=True)]


def _devices(environ: Mapping[str, str], width: int) -> dict[str, str]:
    """Returns what makes `width` devices visible: the first of those that we may use ourselves."""
    allowed = [name for name in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    names = allowed[:width] if len(allowed) >= width else [str(index) for index in range(width)]
    return {"CUDA_VISIBLE_DEVICES": ",".join(names), "SHARDLIB_GPUS": str(width)}


def _pass(request: dict[str, Any], environ: dict[str, str]) -> dict[str, Any]:
    """Returns the answer of one child, in which nothing went wrong."""
    with tempfile.TemporaryDirectory(prefix="shardlib-collect-") as name:
        folder = Path(name)
        (folder / "request.json").write_text(json.dumps(request), encoding="ascii")
        environ = {**environ, "COVERAGE_FILE": str(folder / "coverage")}  # collecting covers nothing worth keeping
        with (folder / "output").open("wb") as output:
            status = subprocess.run(
                child.command("shardlib.collecting.plugin:main", str(folder / "request.json")),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environ,
                check=False,
            ).returncode
        tail = (folder / "output").read_text(encoding="utf-8", errors="replace")[-_TAIL:].strip()
        answer_file = folder / "answer.json"
        if not answer_file.exists():
            raise CollectError(f"pytest ended (status {status}) without an answer; its last output:\n{tail}")
        answer: dict[str, Any] = json.loads(answer_file.read_text(encoding="ascii"))
    _check(answer, tail)
    answer["tail"] = tail
    return answer


def _check(answer: dict[str, Any], tail: str) -> None:
    if answer["refused"]:
        raise UsageError(answer["refused"])
    if answer["settings_errors"]:
        raise SettingsError(_listed(answer["settings_errors"]))
    if answer["errors"]:
        errors = [f"{short(error['id'])}:\n{error['text']}" for error in answer["errors"]]
        raise CollectError(f"{len(errors)} collection errors:\n{_listed(errors)}")
    # 1 is what plugins such as pytest-cov make of a session that ran nothing; anything else stopped it.
    if "tests" not in answer or answer["status"] not in (0, 1, 5):
        raise CollectError(f"pytest ended (status {answer['status']}) before it had collected:\n{tail}")
    counts = Counter(test["id"] for test in answer["tests"])
    twice = [short(node_id) for node_id, count in counts.items() if count > 1]
    if twice:
        raise CollectError(f"{len(twice)} node ids are there more than once: rename these tests:\n{_listed(twice)}")


def _merge(passes: Mapping[int, dict[str, Any]], settings: Settings) -> tuple[tuple[CollectedTest, ...], list[str]]:
    """Returns each test from the pass of its own width, in the first pass's order, and the notes."""
    widths = _widths(passes)
    parsed = {
        width: [read_test(test, "collecting", settings.gpus_per_node) for test in passes[width]["tests"]]
        for width in widths
    }
    place = {test.id: index for index, test in enumerate(parsed[widths[0]])}
    rows: list[tuple[int, int, int, CollectedTest]] = []
    for rank, width in enumerate(widths):
        anchor = -1  # what only this pass has stays behind the test that it follows here
        for index, test in enumerate(parsed[width]):
            anchor = place.get(test.id, anchor)
            if test.gpus == width or settings.collect_gpus is not None:
                rows.append((anchor, rank, index, test))
    tests = tuple(row[3] for row in sorted(rows, key=lambda row: row[:3]))
    kept: dict[str, CollectedTest] = {}
    for test in tests:
        if test.id in kept:
            raise SettingsError(
                f"{short(test.id)} asks for {kept[test.id].gpus} GPUs where it sees as many, and for {test.gpus} where it "
                f"sees those: let its marker not depend on the visible devices, or set tool.shardlib.collect_gpus"
            )
        kept[test.id] = test
    if not tests:
        raise CollectError("no test is collected with as many visible devices as it asks for; set collect_gpus")
    # Plain pytest on a whole node would run these too.
    return tests, _notes(passes, [test for test in parsed[widths[0]] if test.id not in kept])


def _notes(passes: Mapping[int, dict[str, Any]], lost: Sequence[CollectedTest]) -> list[str]:
    notes = []
    if lost:
        named = ", ".join(short(test.id) for test in lost[:_NAMED])
        notes.append(
            f"{len(lost)} tests exist with a node's devices, but not with as many as they ask for; left out: {named}"
        )
    neutralised = dict.fromkeys(label for answer in passes.values() for label in answer["neutralised"])
    if neutralised:
        notes.append(f"ignored, since shardlib decides it: {', '.join(neutralised)}")
    for width, answer in passes.items():
        if answer["cuda"]:
            notes.append(f"{answer['cuda']} initialised CUDA (with {width} visible devices): collecting should not")
        for skipped in answer["skipped"]:
            notes.append(f"{short(skipped['id'])} skips itself with {width} visible devices: {skipped['reason']}")
    return notes


def _listed(texts: Sequence[str]) -> str:
    more = f"\n... and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return "\n".join(texts[:_NAMED]) + more
