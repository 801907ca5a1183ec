"""fit, review and accept as a person calls them, from samples to a durations file that plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardlib import durations
from shardlib.cli import main
from shardlib.errors import UsageError, WeightsError
from shardlib.weights import samplefiles
from shardlib.weights.samples import Run, Sample

DAY = 86_400.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Samples of ten runs of twenty tests in four files, each with a setup; one test became three times as long."""
    for run in range(10):
        rows = [Sample(id=f"tests/test_{file}.py", seconds=2.0 + 0.01 * run, pod="01/0") for file in range(4)]
        for number in range(20):
            seconds = (number + 1) * (1 + 0.03 * ((run * 7 + number * 3) % 5 - 2))
            seconds *= 3 if number == 19 and run >= 7 else 1
            rows.append(Sample(id=f"tests/test_{number % 4}.py::test_{number}", seconds=seconds, pod="01/0"))
        samplefiles.write(
            tmp_path / "samples",
            Run(run=f"run-{run}", when=1.75e9 + run * DAY, kind="events", source="test", samples=tuple(rows)),
        )
    return tmp_path


def test_from_samples_to_the_durations_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proposal, target, page = folder / "proposal.json", folder / "durations.json", folder / "review.html"
    target.write_text(json.dumps({f"tests/test_{n % 4}.py::test_{n}": n + 1 for n in range(20)}), encoding="ascii")
    assert main(["weights", "fit", str(folder / "samples"), "-o", str(proposal)]) == 0
    assert "20 tests and 4 file setups, 10 runs" in capsys.readouterr().out
    assert main(["weights", "review", str(proposal), "--current", str(target), "--html", str(page)]) == 0
    assert capsys.readouterr().out.startswith("1 test needs a look.")
    assert "tests/test_3.py::test_19" in page.read_text(encoding="utf-8")
    assert main(["weights", "accept", str(proposal), "-o", str(target)]) == 0
    assert "Largest changes:\n  20.0 s -> " in capsys.readouterr().out
    found = durations.load(target)
    assert len(found) == 24
    assert found["tests/test_3.py::test_19"] == pytest.approx(60, rel=0.1)
    assert found["tests/test_0.py::test_4"] == pytest.approx(5, rel=0.1)
    assert main(["weights", "review", str(proposal), "--current", str(target)]) == 0
    assert capsys.readouterr().out.startswith("Nothing needs attention.")


def test_accepting_twice_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proposal, target = folder / "proposal.json", folder / "durations.json"
    main(["weights", "fit", str(folder / "samples"), "-o", str(proposal)])
    main(["weights", "accept", str(proposal), "-o", str(target)])
    before = target.read_bytes()
    capsys.readouterr()
    assert main(["weights", "accept", str(proposal), "-o", str(target)]) == 0
    assert capsys.readouterr().out.startswith("Update GPU test durations: nothing changed")
    assert target.read_bytes() == before


def test_link_to_the_durations_file_stays_a_link(folder: Path) -> None:
    main(["weights", "fit", str(folder / "samples"), "-o", str(folder / "p.json")])
    (folder / "real.json").write_text("{}", encoding="ascii")
    (folder / "link.json").symlink_to("real.json")
    assert main(["weights", "accept", str(folder / "p.json"), "-o", str(folder / "link.json")]) == 0
    assert (folder / "link.json").is_symlink()
    assert len(durations.load(folder / "real.json")) == 24


@pytest.mark.parametrize("text", ["[1]", '{"a::t": -1}', "{"])
def test_broken_durations_file_is_refused_and_left_as_it_is(folder: Path, text: str) -> None:
    main(["weights", "fit", str(folder / "samples"), "-o", str(folder / "p.json")])
    target = folder / "durations.json"
    target.write_text(text, encoding="ascii")
    assert main(["weights", "accept", str(folder / "p.json"), "-o", str(target)]) == 14
    assert target.read_text(encoding="ascii") == text


def test_choice_that_does_not_fit_writes_nothing(folder: Path) -> None:
    main(["weights", "fit", str(folder / "samples"), "-o", str(folder / "p.json")])
    argv = ["weights", "accept", str(folder / "p.json"), "-o", str(folder / "new.json"), "--only", "nothing*"]
    assert main(argv) == WeightsError.exit_code
    assert not (folder / "new.json").exists()


@pytest.mark.parametrize(
    "options",
    [["--half-life-runs", "0"], ["--half-life-runs", "nan"], ["--shards", "0"], ["--shift-up-runs", "0"]],
)
def test_senseless_fit_settings_are_refused(folder: Path, options: list[str]) -> None:
    argv = ["weights", "fit", str(folder / "samples"), "-o", str(folder / "p.json"), *options]
    assert main(argv) == UsageError.exit_code
    assert not (folder / "p.json").exists()
