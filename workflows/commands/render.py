"""`python -m workflows render`: the manifests as files, or on stdout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from workflows import settings
from workflows.render import render, write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write the files here; default: print them")


def main(args: argparse.Namespace) -> int:
    """Renders; returns 0."""
    texts = render(settings.load(args.settings))
    if args.output is None:
        sys.stdout.write("---\n".join(text for name, text in texts.items() if name != "kustomization.yaml"))
        return 0
    write(texts, args.output)
    print(f"{args.output}: {', '.join(texts)}; install them with kubectl apply -k {args.output}")
    return 0
