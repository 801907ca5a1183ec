from __future__ import annotations

from pathlib import Path

import pytest

from shardlib import cli
from shardlib.commands.find_changed import matching
from tests.repositories import commit, git, make_checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path)


@pytest.mark.parametrize(
    ("glob", "counts"),
    [
        ("*", True),
        ("*.cu", True),
        ("third_party/*", True),
        ("third_party/x", True),
        ("third_party/x/*.h", True),
        ("third_party/x/include/a.h", True),
        ("third_party/[xy]/*", True),
        ("third_party/xy/*", False),
        ("third_party/y", False),
        ("src/*", False),
        ("third_party", False),
    ],
)
def test_a_submodule_counts_where_a_glob_could_match_something_in_it(glob: str, counts: bool) -> None:
    assert matching(["third_party/x/"], [glob]) == (["third_party/x/"] if counts else [])


def test_a_star_crosses_folders() -> None:
    assert matching(["src/gpu/deep/a.cu", "docs/a.md"], ["src/gpu/*", "*.toml"]) == ["src/gpu/deep/a.cu"]


def test_a_clone_gives_the_step_its_parameters(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sha = commit(checkout, {"src/gpu/kernel.cu": "4"})
    out = tmp_path / "parameters"
    served = (tmp_path / "served").as_uri()
    argv = ["find-changed", "--clone", served, "--repository", "org/training", "--head", sha, "--pr", "7"]
    assert cli.main([*argv, "--glob", "src/gpu/*", "--parameters", str(out)]) == 0
    told = {path.name: path.read_text() for path in out.iterdir()}
    assert told == {"gpu-code": "true", "labelled": "false", "sha": sha, "pr": "7", "repo": "org/training"}
    assert "2 files changed, 1 of them GPU code" in capsys.readouterr().out
    assert cli.main([*argv, "--glob", "csrc/*", "--parameters", str(out)]) == 0
    assert (out / "gpu-code").read_text() == "false"


def test_a_server_that_does_not_answer_is_infrastructure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    argv = ["find-changed", "--clone", tmp_path.as_uri(), "--repository", "org/gone", "--head", "a" * 40, "--pr", "7"]
    assert cli.main([*argv, "--parameters", str(tmp_path / "out")]) == 75
    told = capsys.readouterr()
    assert "git fetch" in told.err
    assert told.out.count("trying again in") == 3
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--head", "HEAD"),
        ("--head", "a" * 39),
        ("--head", "A" * 40),
        ("--head", "a" * 40 + "\n"),
        ("--repository", "org"),
        ("--repository", "../../etc/x"),
        ("--repository", "org/{{workflow.name}}"),
        ("--repository", "-org/x"),
        ("--pr", "7 "),
        ("--pr", "{{=1+1}}"),
        ("--pr", "٣"),
    ],
)
def test_values_that_go_into_manifests_are_refused_unless_exact(
    tmp_path: Path, checkout: Path, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    sha = git(checkout, "rev-parse", "HEAD")
    values = {"--repository": "org/training", "--head": sha, "--pr": "7", option: value}
    argv = ["find-changed", "--clone", (tmp_path / "served").as_uri(), "--parameters", str(tmp_path / "out")]
    assert cli.main([*argv, *(f"{name}={given}" for name, given in values.items())]) == 11
    assert option in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("option", "expected"), [("--repository", "OWNER/NAME"), ("--pr", "a pull request's number")])
def test_what_parameters_need_is_missed_before_anything_is_cloned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, expected: str
) -> None:
    values = {"--repository": "org/training", "--head": "a" * 40, "--pr": "7"}
    del values[option]
    argv = ["find-changed", "--clone", (tmp_path / "gone").as_uri(), "--parameters", str(tmp_path / "out")]
    assert cli.main([*argv, *(f"{name}={given}" for name, given in values.items())]) == 11
    assert f"{option} is missing: expected {expected}\n" in capsys.readouterr().err
