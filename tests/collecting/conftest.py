"""Real checkouts that a real pytest collects in a child."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from shardlib.collecting.collect import collect
from shardlib.collecting.document import Collection


@dataclass
class Checkout:
    root: Path
    patch: pytest.MonkeyPatch

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")

    def collect(
        self, *args: str, gpus: int | None = 1, seed: int | None = None, hash_seed: str = "", **environ: str
    ) -> Collection:
        """Collects with nodes of one GPU: one pass, unless `gpus` says otherwise."""
        # What this pytest was started with is none of the suite's business.
        own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_", "CUDA_"))}
        return collect(args, environ={**own, "PYTHONHASHSEED": hash_seed, **environ}, gpus=gpus, random_seed=seed)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(root)
    return Checkout(root, monkeypatch)


def ids(collection: Collection) -> list[str]:
    return [test.id for test in collection.tests]
