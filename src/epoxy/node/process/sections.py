"""Sections of a settings file as msgspec Structs: their fields have the types, `Meta` the ranges, and from both follows
the sentence that tells an operator what is allowed."""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, inspect

from epoxy.model.address import Address
from epoxy.model.errors import ConfigError
from epoxy.model.node_urls import MAX_NODE_URLS, join_urls
from epoxy.node.process.toml_file import TomlSource

PORT = re.compile(r"[0-9]{1,5}")
DIGITS = re.compile(r"[0-9]{1,20}")
"""More than any range allows, and few enough for int()."""


def read_path(value: Any) -> Path:
    return Path(msgspec.convert(value, Text))


def read_address(value: Any) -> Address:
    """ValueError also for a host that no resolver would be asked for, as `a..b`: it has no form on the wire."""
    host, _, port = msgspec.convert(value, str).rpartition(":")
    if not host.strip("[] ") or not host.isprintable() or not PORT.fullmatch(port) or int(port) > 65535:
        raise ValueError
    host = host.strip("[]")
    host.encode("idna")  # UnicodeError is a ValueError
    return Address(host, int(port))


def read_url(value: Any) -> str:
    """The base URL of a node: scheme, host and port, and nothing else."""
    parts = urlsplit(msgspec.convert(value, str).rstrip("/"))
    whole_url = f"{parts.scheme}://{parts.netloc}" == parts.geturl() and parts.username is None
    if parts.scheme not in ("http", "https") or not parts.hostname or not whole_url or parts.port == 0:
        raise ValueError
    if not parts.netloc.isascii() or not parts.netloc.isprintable() or " " in parts.netloc:
        raise ValueError
    parts.hostname.encode("idna")  # UnicodeError is a ValueError
    return parts.geturl()


def read_urls(value: Any) -> str:
    """The addresses of a member, one URL or a list of them, as one text. BadUrls: each is one, and the list is not
    possible."""
    return join_urls([read_url(each) for each in (value if isinstance(value, list) else [value])])


Text = Annotated[str, Meta(pattern=r"\S", description="a text that is not empty")]
FilePath = Annotated[Path, Meta(description="a path", extra={"read": read_path})]
Url = Annotated[str, Meta(description='a url, as "http://10.0.0.1:7800"', extra={"read": read_url})]
NodeUrls = Annotated[
    str,
    Meta(
        description=f'a url, as "http://10.0.0.1:7800", or a list of 1 to {MAX_NODE_URLS}, one for each node',
        extra={"read": read_urls},
    ),
]
ListenAddress = Annotated[
    Address, Meta(description='an address to listen on, as "127.0.0.1:7800"', extra={"read": read_address})
]
"""`extra` may name a function `read`, used instead of `msgspec.convert`, and `from_text`. They raise ValueError, as
msgspec does."""


class Setting(Struct, frozen=True, kw_only=True):
    """`read` raises ValueError for a value that is not allowed. `default` is NODEFAULT if the setting is required.
    `from_text` turns what a variable or a flag holds into the value that the file would have."""

    read: Callable[[Any], Any]
    allowed: str
    default: Any
    from_text: Callable[[str], Any]


def settings_of(section: type[Struct], kinds: Mapping[str, Any] | None = None) -> dict[str, Setting]:
    """`kinds` has what takes the place of a field's own type."""
    return {
        field.name: setting_of(
            (kinds or {}).get(field.name, field.type),
            field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory(),
        )
        for field in msgspec.structs.fields(section)
    }


def setting_of(kind: Any, default: Any) -> Setting:
    info = inspect.type_info(kind)
    if isinstance(info, inspect.UnionType):  # with None, which a file cannot say
        info = next(each for each in info.types if not isinstance(each, inspect.NoneType))
    extra = (info.extra or {}) if isinstance(info, inspect.Metadata) else {}
    form = info.type if isinstance(info, inspect.Metadata) else info
    return Setting(
        read=extra.get("read", lambda value: msgspec.convert(value, kind)),
        allowed=words_of(info),
        default=default,
        from_text=extra.get("from_text", FROM_TEXT.get(type(form), str)),
    )


def read_digits(value: str) -> int | str:
    """Digits alone: `1_000` and ` 5` stay text, which is refused with what was written."""
    return int(value) if DIGITS.fullmatch(value) else value


def read_bool(value: str) -> bool | str:
    return {"true": True, "false": False}.get(value, value)


def read_toml(value: str) -> Any:
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except ValueError:
        return value


FROM_TEXT: dict[type[inspect.Type], Callable[[str], Any]] = {
    inspect.IntType: read_digits,
    inspect.BoolType: read_bool,
    inspect.VarTupleType: read_toml,
    inspect.DictType: read_toml,
}


def words_of(info: inspect.Type) -> str:
    match info:
        case inspect.Metadata(extra_json_schema={"description": str() as words}):
            return words
        case inspect.IntType(ge=low, le=high):
            return f"a whole number from {low} to {high}"
        case inspect.BoolType():
            return "true or false"
        case inspect.EnumType(cls=kind):
            return " or ".join(f'"{member.value}"' for member in kind)
        case inspect.LiteralType(values=values):
            return " or ".join(f'"{value}"' for value in values)
        case _:
            raise AssertionError(f"no words for {info}: give it a Meta with a description")


def read_section(
    source: TomlSource, section: str, settings: Mapping[str, Setting], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings that were given, each checked, and the defaults of all others. Relative paths begin at the file's
    folder, or at the working directory if they do not come from the file."""
    values = {}
    for key, setting in settings.items():
        if key not in given:
            if setting.default is msgspec.NODEFAULT:
                raise ConfigError(f"{source.where(section)}: {section}.{key} is missing: {setting.allowed}")
            values[key] = setting.default
            continue
        try:
            value = setting.read(given[key])
        except ValueError:
            where = source.where(section, key)
            raise ConfigError(f"{where}: {section}.{key} is {given[key]!r}; allowed: {setting.allowed}") from None
        folder = Path.cwd() if f"{section}.{key}" in source.outside else source.folder
        values[key] = folder / value if isinstance(value, Path) else value
    return values


def known(name: str, names: Collection[str]) -> str:
    """What an unknown name may have been meant for."""
    close = get_close_matches(name, names, 1)
    return f"known: {', '.join(names)}" + (f"; did you mean {close[0]}?" if close else "")
