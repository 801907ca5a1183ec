"""`python -m examples.gpu_suite OUT`: writes a suite of sleeping tests to the folder OUT."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from examples.gpu_suite.drawing import draw
from examples.gpu_suite.writing import write


def main(argv: list[str] | None = None) -> int:
    """Writes the suite that the arguments describe; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.gpu_suite", description=__doc__)
    parser.add_argument("out", type=Path, help="a folder that does not exist yet")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn (default: %(default)s)")
    parser.add_argument("--tests", type=_count, default=240, help="about how many tests (default: %(default)s)")
    parser.add_argument(
        "--scale", type=_scale, default=0.01, help="seconds slept for each second drawn (default: %(default)s)"
    )
    args = parser.parse_args(argv)
    files = draw(seed=args.seed, tests=args.tests)
    try:
        write(files, args.out, scale=args.scale)
    except OSError as error:
        parser.error(str(error))
    count = sum(len(function.seconds) for file in files for function in file.functions)
    sys.stdout.write(f"{args.out}: {count} tests in {len(files)} files, at {args.scale:g} of their durations\n")
    return 0


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: a suite has at least one test")
    return value


def _scale(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be 0 or more")
    return value


if __name__ == "__main__":
    raise SystemExit(main())
