"""The collecting child: pytest with the user's arguments and one plugin that notes what it collects.

It gets the path of a request file and writes its answer beside it, both JSON; nothing is read from what it prints.
"""

from __future__ import annotations

import json
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from shardlib import settings as settings_module
from shardlib.collecting.document import to_json
from shardlib.collecting.items import describe, register_marker
from shardlib.errors import SettingsError
from shardlib.options import PytestOptions
from shardlib.settings import Settings

_MAX_ERROR = 4000  # characters of one collection error
_CUDA_DEVICE = "/dev/nvidia-uvm"  # unified memory: cuInit opens it, and NVML, which only asks, does not


def main(arguments: list[str]) -> int:
    """Collects as the request file says and returns pytest's exit status; the answer is complete once it exists."""
    path = Path(arguments[0])
    request = json.loads(path.read_text(encoding="ascii"))
    options = PytestOptions(random_seed=request["random_seed"])
    collector = Collector(gpus=request["gpus"])
    status = int(pytest.main(request["args"], plugins=[options, collector]))
    answer = collector.answer | {
        "status": status,
        "refused": options.refused,
        "neutralised": options.neutralised,
        "random_seed": options.random_seed,
        "version": pytest.__version__,
        "python": platform.python_version(),
    }
    temporary = path.with_name("answer.tmp")
    temporary.write_text(json.dumps(answer), encoding="ascii")
    temporary.replace(path.with_name("answer.json"))
    return status


class Collector:
    """The plugin. `answer` is what the parent gets; it has `tests` once pytest has collected to the end."""

    def __init__(self, *, gpus: int | None) -> None:
        """Takes the GPUs of a node, where they are not the setting's."""
        self.answer: dict[str, Any] = {"errors": [], "skipped": [], "settings_errors": [], "cuda": None}
        self._gpus = gpus
        self._settings = Settings()

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Makes this a collection, before the terminal and xdist look; the user's own --collect-only was refused."""
        config.option.collectonly = True
        if hasattr(config.option, "verbose"):
            config.option.verbose = -2  # counts instead of a line for each test
        inifile = config.inipath
        self.answer |= {
            "rootdir": str(config.rootpath),
            "inifile": str(inifile) if inifile else None,
            "cwd": str(config.invocation_params.dir),
        }
        try:
            self._settings = settings_module.load(config.rootpath)
            if self._gpus is not None:
                self._settings = self._settings.with_values("--gpus", gpus_per_node=self._gpus)
        except SettingsError as err:
            self.answer["settings_errors"].append(str(err))
            raise pytest.UsageError(str(err)) from err
        self.answer["settings"] = self._settings.to_json()
        register_marker(config, self._settings)
        self._note_cuda("the start of pytest (a conftest.py or a plugin)")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes errors, modules that skip themselves, and the first one that initialised CUDA."""
        if report.failed:
            text = report.longreprtext
            shown = text if len(text) <= _MAX_ERROR else f"...{text[-_MAX_ERROR:]}"
            self.answer["errors"].append({"id": report.nodeid, "text": shown})
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            self.answer["skipped"].append({"id": report.nodeid, "reason": str(reason)[:_MAX_ERROR]})
        self._note_cuda(f"collecting {report.nodeid}")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Notes the items that are left when every plugin has selected and sorted."""
        tests = []
        for item in session.items:
            try:
                tests.append(to_json(describe(item, self._settings)))
            except SettingsError as err:
                self.answer["settings_errors"].append(str(err))
        self.answer["tests"] = tests

    def _note_cuda(self, what: str) -> None:
        if self.answer["cuda"] is None and has_cuda():
            self.answer["cuda"] = what


def has_cuda(descriptors: Path = Path("/proc/self/fd")) -> bool:
    """Whether this process has initialised CUDA: torch says so, and any library holds CUDA's device file open.

    Neither way initialises anything. Where no GPU is visible, only torch's word is left.
    """
    initialised = getattr(getattr(sys.modules.get("torch"), "cuda", None), "is_initialized", None)
    if initialised is not None and initialised():
        return True
    for descriptor in descriptors.iterdir() if descriptors.is_dir() else ():
        with suppress(OSError):  # closed meanwhile, the listing's own among them
            if str(descriptor.readlink()) == _CUDA_DEVICE:
                return True
    return False
