"""The rendered commands, run in order on this machine: what the pods would do, but for Argo and Kubernetes themselves.

Paths of the pods are replaced by folders here, and templates by the values that Argo would put in; nothing else is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.chains import ROOT, make_chain, task, template

SUITE = """\
import os, pytest

@pytest.mark.parametrize("case", range(3))
def test_gpu(case): pass

def test_flaky(): assert os.path.exists({flag!r}), "not yet: {{{{workflow.name}}}}"

@pytest.mark.gpu(mode="cpu")
def test_cpu(): pass
"""


class Simulation:
    """One workflow run: the shared folder, and the files that pods leave behind as outputs."""

    def __init__(self, folder: Path, chain: dict[str, Any]) -> None:
        self.folder, self.chain = folder, chain
        self.shared, self.outputs, self.checkout = folder / "ci", folder / "outputs", folder / "checkout"
        self.run = self.shared / "runs" / "uid-1"
        self.zipapp = folder / "opt" / "shardlib.pyz"
        subprocess.run([sys.executable, str(ROOT / "tools" / "build_zipapp.py"), str(self.zipapp)], check=True)
        self.shared.mkdir()
        self.outputs.mkdir()
        self.checkout.mkdir()

    def pod(self, name: str, **parameters: str) -> subprocess.CompletedProcess[str]:
        """Runs a template's init containers and its main; returns main's end."""
        one = template(self.chain, name)
        for init in one.get("initContainers", []):
            if init["name"] != "bring-shardlib":  # done above
                subprocess.run(self.words(init["command"], parameters), check=True)
        main = one.get("container") or one["script"]
        own = {item["name"]: self.text(item["value"], parameters) for item in main.get("env", []) if "value" in item}
        words = self.words([*main["command"], *main.get("args", [])], parameters)
        if "source" in main:
            script = self.folder / "source"
            script.write_text(self.text(main["source"], parameters))
            words.append(str(script))
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "PYTHON"))}
        cwd = self.checkout if "workingDir" in main else self.folder
        environment = {
            **inherited,
            **own,
            "HOME": str(self.folder),
            "PYTHONPATH": "" if "workingDir" in main else str(ROOT),
        }
        return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)

    def words(self, words: list[str], parameters: dict[str, str]) -> list[str]:
        return [self.text(word, parameters) for word in words]

    def text(self, text: str, parameters: dict[str, str]) -> str:
        for name, value in parameters.items():
            text = text.replace(f"{{{{inputs.parameters.{name}}}}}", value)
        values = {
            "{{workflow.uid}}": "uid-1",
            "{{workflow.status}}": "Failed",
            "{{retries}}": "0",
            "/mnt/ci": str(self.shared),
            "/tmp/outputs": str(self.outputs),
            "/told": str(self.outputs),
            "/opt/shardlib/shardlib.pyz": str(self.zipapp),
            "python3 -P": sys.executable,  # -P needs Python 3.11, which the CI tools image has
        }
        for old, new in values.items():
            text = text.replace(old, new)
        assert "{{" not in text
        return sys.executable if text == "python3" else text.replace("-P", "-B") if text == "-P" else text

    def output(self, name: str) -> str:
        return (self.outputs / name).read_text()

    def state(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.run)): path.read_bytes() for path in self.run.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_the_steps_fit_each_other_from_collection_to_the_verdict_and_its_retry(tmp_path: Path) -> None:
    chain = make_chain(shards=2, gpus=2, durations="durations.json", run_args=["--simulated-gpus"], pytest_args=["."])
    simulation = Simulation(tmp_path, chain)
    flag = tmp_path / "flag"
    (simulation.checkout / "test_x.py").write_text(SUITE.format(flag=str(flag)))
    (simulation.checkout / "pytest.ini").write_text("[pytest]\nmarkers = gpu: x\n")
    (simulation.checkout / "durations.json").write_text('{"test_x.py::test_flaky": 30}')

    done = simulation.pod("collect-tests", image="x")
    assert done.returncode == 0, done.stderr
    assert set(simulation.state()) == {"collect/collect.json", "collect/durations.json"}

    done = simulation.pod("calculate-shards", image="x")
    assert done.returncode == 0, done.stderr
    items = json.loads(done.stdout)  # nothing else is on stdout
    counts = (simulation.output("gpu-shards"), simulation.output("cpu-shards"))
    assert counts == (str(len(items)), "1")
    assert "1 known" in simulation.output("prediction")

    def shard(**parameters: str) -> tuple[int, str]:
        before = simulation.state()
        done = simulation.pod("gpu-tests" if "shard" in parameters else "cpu-tests", image="x", **parameters)
        own = f"shards/{parameters.get('shard', 'cpu')}/"
        changed = {name for name, data in simulation.state().items() if before.get(name) != data}
        assert changed
        assert all(name.startswith(own) for name in changed)
        return done.returncode, simulation.output("summary")

    names = [
        one["name"] for one in task(chain, "shard", "gpu-run")["arguments"]["parameters"] if one["name"] != "image"
    ]
    assert all(item.keys() == set(names) for item in items)
    ends = {item["shard"]: shard(**item) for item in items}
    (red,) = (name for name, (code, _) in ends.items() if code == 1)
    assert ends[red][1] == f"shard {red}: 1 failed: test_x.py::test_flaky"
    assert shard(minutes=simulation.output("cpu-minutes"), deadline=simulation.output("cpu-deadline"))[0] == 0

    done = simulation.pod("gpu-tests-passed")
    assert done.returncode == 1, done.stdout
    verdict = simulation.output("summary")
    assert verdict.startswith("RED: ")
    assert f"red shards: {red}" in verdict
    assert "{{" not in verdict
    assert simulation.pod("conclude").returncode == 0

    flag.touch()  # `argo retry` makes the red pods again, in the same folder
    before = set(simulation.state())
    (item,) = (item for item in items if item["shard"] == red)
    assert shard(**item)[0] == 0
    (log,) = (name for name in simulation.state().keys() - before if name.endswith("/events/1.jsonl"))
    events = [json.loads(line) for line in simulation.state()[log].splitlines()]
    assert [event["id"] for event in events if event["event"] == "start"] == ["test_x.py::test_flaky"]
    done = simulation.pod("gpu-tests-passed")
    assert done.returncode == 0, done.stdout
    assert simulation.output("summary").startswith("GREEN: 5 tests")
    assert "flaky" in done.stdout


@pytest.mark.slow
def test_what_makes_the_plan_impossible_ends_before_any_shard(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, make_chain(durations="durations.json", pytest_args=["."]))
    (simulation.checkout / "test_x.py").write_text("def test_x(): pass\n")
    assert simulation.pod("collect-tests", image="x").returncode == 13  # there is no durations file
    (simulation.checkout / "durations.json").write_text("{")
    assert simulation.pod("collect-tests", image="x").returncode == 0
    done = simulation.pod("calculate-shards", image="x")
    assert (done.returncode, done.stdout) == (14, "")
    assert "durations.json" in done.stderr
    (simulation.run / "collect" / "collect.json").write_text('{"schema": "forged"}')
    assert simulation.pod("calculate-shards", image="x").returncode == 15
    assert not (simulation.run / "plan").exists()
    assert simulation.pod("gpu-tests-passed").returncode == 16  # no plan is no verdict, and never green
    assert simulation.output("summary").startswith("no verdict: ")
    assert simulation.pod("conclude").returncode == 0
