from __future__ import annotations

from pathlib import Path

import pytest

from .harness import Suite


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "pytest.ini").write_text("[pytest]\n", "ascii")
    return Suite(root=root)
