from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "tools" / "build_zipapp.py"
SUITE = """\
import pytest

@pytest.mark.parametrize("case", ["a b", "x::y", "${{z}}"])
def test_case(case): pass

def test_skipped(): pytest.skip("on purpose")
"""

# What the path of `run`, `collect` and the plugin may import: an image under test has nothing else for us.
ALLOWED = {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py"}
ALLOWED |= {"tomli", "exceptiongroup", "typing_extensions"}  # pytest's own, on 3.10


def build(target: Path, package: Path = ROOT / "shardlib") -> bytes:
    code = f"import runpy, pathlib; runpy.run_path({str(BUILD)!r})['build'](*map(pathlib.Path, {[str(target), str(package)]}))"
    subprocess.run([sys.executable, "-c", code], check=True)
    return target.read_bytes()


@pytest.fixture(scope="module")
def zipapp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist") / "shardlib.pyz"
    build(target)
    return target


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has pytest and what pytest needs, and no shardlib."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for distribution in closure("pytest"):
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (site / top).symlink_to(str(distribution.locate_file(top)))
    return folder / "bin" / "python"


def closure(name: str) -> list[importlib.metadata.Distribution]:
    found: dict[str, importlib.metadata.Distribution] = {}
    names = [name]
    while names:
        distribution = importlib.metadata.distribution(names.pop())
        found[distribution.name] = distribution
        for requirement in map(Requirement, distribution.requires or ()):
            if (
                requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            ) and requirement.name not in found:
                names.append(requirement.name)
    return list(found.values())


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def test_equal_sources_give_an_equal_zipapp(zipapp: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "shardlib", tmp_path / "shardlib")
    for path in (tmp_path / "shardlib").rglob("*.py"):
        os.utime(path, (1e9, 1e9))
    assert build(tmp_path / "again.pyz", tmp_path / "shardlib") == zipapp.read_bytes()


def test_the_bare_interpreter_has_pytest_and_no_shardlib(bare_python: Path, tmp_path: Path) -> None:
    assert run(bare_python, "-m", "pytest", "--version", cwd=tmp_path).returncode == 0
    assert run(bare_python, "-c", "import shardlib", cwd=tmp_path).returncode == 1
    assert run(bare_python, "-c", "import hypothesis", cwd=tmp_path).returncode == 1


@pytest.mark.versions
def test_zipapp_names_its_commands(zipapp: Path, bare_python: Path, tmp_path: Path) -> None:
    done = run(bare_python, zipapp, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for command in ("collect", "plan", "run", "verify", "local", "explain", "find-changed", "tag-image", "conclude"):
        assert command in done.stdout


@pytest.mark.versions
def test_zipapp_collects_plans_runs_and_verifies(zipapp: Path, bare_python: Path, tmp_path: Path) -> None:
    (tmp_path / "test_small.py").write_text(SUITE)
    collect = ["collect", "-o", "collect.json", "--", "test_small.py"]
    plan = ["plan", "--shards", "1", "--gpus", "2", "--run", "RUN", "--collected", "collect.json"]
    shard = ["run", "--run", "RUN", "--shard", "01", "--simulated-gpus"]
    for command in (collect, plan, shard, ["verify", "--run", "RUN", "--junit", "merged.xml"]):
        done = run(bare_python, zipapp, *command, cwd=tmp_path)
        assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    assert "test_case" in (tmp_path / "merged.xml").read_text("utf-8")


@pytest.mark.parametrize("module", ["shardlib.commands.run", "shardlib.commands.collect", "shardlib.running.plugin"])
def test_what_runs_in_the_image_imports_pytest_and_the_standard_library_only(module: str, tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}; print(*sys.modules, sep='\\n')"
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    before = run(sys.executable, "-c", "import sys; print(*sys.modules, sep='\\n')", cwd=tmp_path)
    startup = {name.partition(".")[0] for name in before.stdout.split()}  # .pth files of the environment
    assert module in done.stdout.split()
    assert imported - startup - set(sys.stdlib_module_names) - ALLOWED - {"shardlib"} == set()


def test_version_and_dependencies_are_the_packages_own() -> None:
    import shardlib

    assert importlib.metadata.version("shardlib") == shardlib.__version__
    core = [line for line in importlib.metadata.requires("shardlib") or () if "extra ==" not in line]
    assert core == ["pytest>=7.4"]


@pytest.mark.skipif(not find_spec("mypy"), reason="not a development environment: the chain is not tested here")
def test_the_development_environment_tests_the_chain_too() -> None:
    assert find_spec("hera"), "tests/workflows is left out without hera: make setup"
