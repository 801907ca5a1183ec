"""The ledger of tags: which run moved a tag last, so that an older run that ends later never moves it back.

One JSON file for each tag on the shared volume, which no pod that runs code of a pull request can write. Who reads and
writes it holds the tag's mutex.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from shardlib import safefiles
from shardlib.errors import RegistryError, UsageError
from shardlib.fields import Fields, canonical, parse

SCHEMA = "shardlib.tag/1"
_MAX_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A tag and what it names.

    Attributes:
        image: REGISTRY/PATH:TAG.
        digest: what the tag names.
        run: the workflow's uid.
        created: when the workflow was created, ISO 8601 with an offset; a retry of it does not change that.
    """

    image: str
    digest: str
    run: str
    created: str

    def __post_init__(self) -> None:
        """Refuses a time that cannot be compared."""
        _time(self.created)

    def is_older_than(self, other: Entry) -> bool:
        """Returns whether this entry's run was created before the other's; of the same second, by their uids."""
        return (_time(self.created), self.run) < (_time(other.created), other.run)


def read(folder: Path, image: str) -> Entry | None:
    """Returns what moved the tag last; None if the ledger does not know it.

    Raises:
        RegistryError: the file is none of ours; nobody guesses which run was newer.
        RunFolderError: it is no regular file.
    """
    name = _name(image)
    data = safefiles.read_bytes(folder, (name,), limit=_MAX_BYTES)
    if data is None:
        return None
    where = str(folder / name)
    fields = Fields(parse(data.decode("utf-8", "replace"), where, RegistryError), where, RegistryError)
    values = {key: fields.text(key) for key in ("schema", "image", "digest", "run", "created")}
    fields.end()
    if values.pop("schema") != SCHEMA or values["image"] != image:
        raise RegistryError(f"{where}: is no entry of {image}; look at who wrote it, and remove it")
    return Entry(**values)


def write(folder: Path, entry: Entry) -> None:
    """Puts the entry in the place of an older one; RunFolderError if the folder cannot be written."""
    text = canonical({"schema": SCHEMA, **asdict(entry)})
    safefiles.replace(folder, (_name(entry.image),), text.encode("ascii"))


def _name(image: str) -> str:
    """Returns a file name that no other image has, and that a person knows again."""
    readable = re.sub(r"[^A-Za-z0-9.-]", "-", image)[-100:]
    return f"{readable}-{hashlib.sha256(image.encode()).hexdigest()[:12]}.json"


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if time.tzinfo is None:
            raise ValueError("a time without its zone")
    except ValueError as err:
        raise UsageError(f"--created {text!r}: expected Argo's {{{{workflow.creationTimestamp}}}}: {err}") from err
    return time
