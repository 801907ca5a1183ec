"""Where a setting stands in a TOML file, to say it in messages: file, line, key, value and what is expected. Pure."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from shardlib.errors import SettingsError
from shardlib.fields import short


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a table of settings was read.

    Attributes:
        where: the file.
        source: the file's text; empty if there is none to look into.
        table: the table's name in the file, such as tool.shardlib; empty if it is the whole file.
    """

    where: str
    source: str
    table: str = ""

    def wrong(self, key: str, value: object, expected: str, rule: int | None = None) -> SettingsError:
        """Returns the error for a value that is not what it must be; `rule` is the index of its mode rule."""
        return SettingsError(f"{self._told(key, value, rule)}: expected {expected}")

    def unknown(self, key: str, value: object, names: list[str], rule: int | None = None) -> SettingsError:
        """Returns the error for a key that is none of `names`."""
        near = difflib.get_close_matches(key, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        return SettingsError(f"{self._told(key, value, rule)}: no such setting{hint} The settings: {', '.join(names)}")

    def _told(self, key: str, value: object, rule: int | None) -> str:
        line = self._line(key, rule)
        at = self.where if line is None else f"{self.where}:{line}"
        return f"{at}: {self._path(key if rule is None else f'modes[{rule}].{key}')} = {short(value)}"

    def _path(self, key: str) -> str:
        return f"{self.table}.{key}" if self.table else key

    def _line(self, key: str, rule: int | None) -> int | None:
        """Returns the 1-based line that sets `key` in our table (in the `rule`-th of its mode rules), if it is found."""
        rules = self._path("modes")
        inside, count, found = "", -1, None
        pattern = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""")
        for number, text in enumerate(self.source.splitlines(), 1):
            header = re.match(r"""\s*\[{1,2}\s*([\w."'-]+)\s*\]{1,2}\s*(#.*)?$""", text)
            if header:
                inside = re.sub("[\"']", "", header[1])
                count += inside == rules
                if rule is None and f"{inside}.".startswith(f"{self._path(key)}."):
                    return number  # the value is a table, or a list of them
            elif pattern.match(text) and (inside == self.table if rule is None else (inside, count) == (rules, rule)):
                return number
            elif rule is not None and inside == self.table and re.match(r"\s*modes\s*=", text):
                found = number  # rules as inline tables: the list's line is all that can be said
        return found
