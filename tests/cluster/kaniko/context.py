"""The build context, which is a folder here; Kaniko also takes git repositories, buckets and tars."""

from __future__ import annotations

from pathlib import Path


class ContextError(Exception):
    """There is no build context where the command line says, or it is of another kind."""


def find(context: str, sub_path: str) -> Path:
    """Returns the context's folder."""
    scheme, separator, rest = context.partition("://")
    if not separator:
        return Path(context)  # Kaniko leaves --context-sub-path alone here, too
    if scheme in ("gs", "tar", "s3", "git", "https"):
        raise ContextError(f"{context}: Kaniko knows {scheme}://, but the stand-in does not implement it")
    if scheme != "dir":
        raise ContextError(
            "unknown build context prefix provided, please use one of the following: "
            "gs://, dir://, tar://, s3://, git://, https://"
        )
    folder = Path(rest) / sub_path
    if not folder.is_dir():
        raise ContextError(f"stat {folder}: no such file or directory")
    return folder
