"""How pytest collected: the part that collect.json and plan.json have in common. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shardlib.errors import PlanError
from shardlib.fields import Fields


@dataclass(frozen=True, kw_only=True)
class PytestRun:
    """How pytest collected, which every worker repeats.

    `args` are the user's own arguments (those of PYTEST_ADDOPTS first). `hash_seed` is PYTHONHASHSEED, `random_seed`
    pytest-randomly's seed (None without it).
    """

    version: str
    python: str
    rootdir: str
    inifile: str | None
    cwd: str
    args: tuple[str, ...]
    hash_seed: str
    random_seed: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns it as a JSON object; `read_pytest_run` is the inverse."""
        return {
            "version": self.version,
            "python": self.python,
            "rootdir": self.rootdir,
            "inifile": self.inifile,
            "cwd": self.cwd,
            "args": list(self.args),
            "hash_seed": self.hash_seed,
            "random_seed": self.random_seed,
        }


def check_schema(fields: Fields, schema: str, again: str) -> None:
    """Raises PlanError unless the `schema` field is this one; `again` says how to make it anew."""
    found = fields.raw("schema")
    if found != schema:
        raise fields.wrong("schema", found, f"{schema!r}: it is of another version; {again}")


def read_pytest_run(value: object, where: str) -> PytestRun:
    """Returns the `pytest` object of a collect.json or a plan.json, or raises PlanError."""
    fields = Fields(value, f"{where}: pytest", PlanError)
    run = PytestRun(
        version=fields.text("version", most=100),
        python=fields.text("python", most=100),
        rootdir=fields.text("rootdir", most=10_000),
        inifile=fields.text("inifile", most=10_000) if fields.has("inifile") else None,
        cwd=fields.text("cwd", most=10_000),
        args=fields.texts("args", most=100_000),
        hash_seed=fields.text("hash_seed", most=20),
        random_seed=fields.integer("random_seed", -(2**64), 2**64) if fields.has("random_seed") else None,
    )
    fields.end()
    return run
