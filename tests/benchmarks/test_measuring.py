"""Programs under measurement."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.measuring import ProgramFailed, must, run, run_together


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_status_and_the_output_are_kept(tmp_path: Path) -> None:
    ended = run(python("print('out'); raise SystemExit(3)"), cwd=tmp_path, log=tmp_path / "log")
    assert ended.status == 3
    assert ended.tail() == "out\n"
    assert must(ended, 0, 3) is ended
    with pytest.raises(ProgramFailed, match="log ended with 3:\nout"):
        must(ended)


def test_a_signal_is_a_negative_status(tmp_path: Path) -> None:
    ended = run(python("import os; os.kill(os.getpid(), 9)"), cwd=tmp_path, log=tmp_path / "log")
    assert ended.status == -9


def test_cpu_counts_descendants(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    assert run(python(code), cwd=tmp_path, log=tmp_path / "log").cpu_seconds >= 0.4


def test_programs_run_at_the_same_time(tmp_path: Path) -> None:
    meet = "import pathlib, time; pathlib.Path({!r}).touch()\nwhile not pathlib.Path({!r}).exists(): time.sleep(0.01)"
    programs = {"a.log": python(meet.format("a", "b")), "b.log": python(meet.format("b", "a"))}
    ended = run_together(programs, cwd=tmp_path, logs=tmp_path)
    assert {name: one.status for name, one in ended.items()} == {"a.log": 0, "b.log": 0}


def test_when_one_cannot_start_the_others_are_ended(tmp_path: Path) -> None:
    programs = {
        "a.log": python("import time; print('on', flush=True); time.sleep(600)"),
        "b.log": [str(tmp_path / "no such program")],
    }
    with pytest.raises(FileNotFoundError):
        run_together(programs, cwd=tmp_path, logs=tmp_path)
