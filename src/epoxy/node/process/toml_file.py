"""The lines of a TOML file on which its settings stand, for error messages: tomllib does not keep them."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from epoxy.model.errors import ConfigError

HEADER = re.compile(r"\s*\[{1,2}([^\[\]]+)\]{1,2}\s*(?:#.*)?$")
QUOTES_AND_SPACE = re.compile(r"[\s\"']")


class TomlSource:
    """`outside` has the settings that do not come from the file, by `section.key`, with their origin."""

    def __init__(self, path: Path, text: str) -> None:
        self.name = str(path)
        self.folder = path.absolute().parent
        self.outside: dict[str, str] = {}
        self._names = list(names(text))

    def where(self, section: str, key: str | None = None) -> str:
        """The origin of the setting, or of a table around it; else the line of the innermost that has one; else the
        file alone. An inline table has no line of its own."""
        parts = (f"{section}.{key}" if key else section).split(".")
        around = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
        if origin := next((self.outside[name] for name in around if name in self.outside), None):
            return origin
        line = next(filter(None, map(self._line, around)), None)
        return f"{self.name}, line {line}" if line else self.name

    def _line(self, wanted: str) -> int | None:
        return next((line for line, name in self._names if name == wanted or name.startswith(f"{wanted}.")), None)


def names(text: str) -> Iterator[tuple[int, str]]:
    """The dotted name that each line begins: a table, or a setting of the table above it."""
    table = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if header := HEADER.match(line):
            table = plain(header.group(1))
            yield number, table
        elif "=" in line:
            key = plain(line.partition("=")[0])
            yield number, f"{table}.{key}" if table else key


def plain(name: str) -> str:
    """`"node" . 'id'` and node.id are the same name."""
    return QUOTES_AND_SPACE.sub("", name)


def parse(path: Path) -> tuple[TomlSource, dict[str, Any]]:
    try:
        text = path.read_text("utf-8")
        return TomlSource(path, text), tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start})") from error
    except ValueError as error:  # tomllib's, or int()'s for thousands of digits
        raise ConfigError(f"{path}: is not TOML: {error}") from error
