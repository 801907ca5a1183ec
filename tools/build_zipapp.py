"""Builds shardlib.pyz, the one file that is brought to an image under test; equal sources give equal bytes.

    python tools/build_zipapp.py dist/shardlib.pyz

The standard library's zipapp stores the time of each file, and compressed bytes depend on the zlib at hand: so entries
are sorted, dated 1980 and stored as they are.
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "shardlib"
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = "from shardlib.cli import main\n\nraise SystemExit(main())\n"


def build(target: Path, package: Path = PACKAGE) -> None:
    """Writes the zipapp of `package` to `target`, whose folder is made if need be."""
    sources = sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    entries = {path.relative_to(package.parent).as_posix(): path.read_bytes() for path in sources}
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    with part.open("wb") as file:
        file.write(SHEBANG)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, data in [("__main__.py", MAIN.encode()), *entries.items()]:
                info = zipfile.ZipInfo(name)  # dated 1980-01-01
                info.external_attr = 0o644 << 16
                archive.writestr(info, data)
    part.chmod(0o755)
    part.replace(target)


def main() -> int:
    """Builds the file named on the command line and prints its digest."""
    target = Path(sys.argv[1])
    build(target)
    print(f"{hashlib.sha256(target.read_bytes()).hexdigest()}  {target}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
