"""`python workflows/gpu_ci.py [SETTINGS]` prints the chain's manifests, as Hera users expect of a file like this.

The chain itself is in chain.py, its steps in steps.py; `python -m workflows` has the other commands.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # Run as a file, Python puts this folder first, where `settings` would hide nothing and help nobody.
    sys.path[0] = str(ROOT)
    from workflows.cli import main

    raise SystemExit(main(["render", "--settings", sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "gpu-ci.toml")]))
