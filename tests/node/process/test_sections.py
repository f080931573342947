"""Sections of a settings file: what follows from the types of a Struct's fields."""

import enum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from epoxy.model.address import Address
from epoxy.model.errors import ConfigError
from epoxy.node.process.sections import (
    FilePath,
    ListenAddress,
    Text,
    Url,
    known,
    read_address,
    read_section,
    read_url,
    settings_of,
)
from epoxy.node.process.toml_file import TomlSource


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Example(Struct, frozen=True, kw_only=True):
    count: Annotated[int, Meta(ge=1, le=9)] = 5
    on: bool = False
    colour: Colour = Colour.RED
    kind: Literal["a", "b"] = "a"
    name: Text
    at: ListenAddress | None = None
    folder: FilePath | None = None
    url: Url = ""


SETTINGS = settings_of(Example)


def read(given: dict[str, Any], text: str = "", *outside: str) -> dict[str, Any]:
    source = TomlSource(Path("/etc/example.toml"), text)
    source.outside.update(dict.fromkeys(outside, "VARIABLE"))
    return read_section(source, "part", SETTINGS, given)


def test_what_is_allowed_follows_from_the_type() -> None:
    assert {key: setting.allowed for key, setting in SETTINGS.items()} == {
        "count": "a whole number from 1 to 9",
        "on": "true or false",
        "colour": '"red" or "blue"',
        "kind": '"a" or "b"',
        "name": "a text that is not empty",
        "at": 'an address to listen on, as "127.0.0.1:7800"',
        "folder": "a path",
        "url": 'a url, as "http://10.0.0.1:7800"',
    }
    assert SETTINGS["name"].default is msgspec.NODEFAULT
    assert SETTINGS["count"].default == 5


def test_a_type_without_words_is_a_mistake_of_the_program() -> None:
    class Wordless(Struct):
        when: float

    with pytest.raises(AssertionError, match="give it a Meta with a description"):
        settings_of(Wordless)


def test_values_have_their_types_and_defaults_fill_in() -> None:
    values = read({"name": "n", "colour": "blue", "at": "[::1]:80", "folder": "x", "url": "http://h/"})
    assert Example(**values) == Example(
        name="n", colour=Colour.BLUE, at=Address("::1", 80), folder=Path("/etc/x"), url="http://h"
    )


def test_a_relative_path_from_outside_begins_at_the_working_directory() -> None:
    assert read({"name": "n", "folder": "x"}, "", "part.folder")["folder"] == Path.cwd() / "x"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("count", 0),
        ("count", True),
        ("on", 1),
        ("colour", "green"),
        ("kind", "c"),
        ("name", " "),
        ("at", "x"),
        ("folder", 3),
    ],
)
def test_a_value_out_of_range_is_named_with_its_line(key: str, value: object) -> None:
    with pytest.raises(ConfigError) as refused:
        read({"name": "n", key: value}, f"[part]\n\n{key} = 0\n")
    allowed = SETTINGS[key].allowed
    assert str(refused.value) == f"/etc/example.toml, line 3: part.{key} is {value!r}; allowed: {allowed}"


def test_a_missing_setting_is_named_with_the_line_of_its_section() -> None:
    with pytest.raises(ConfigError, match=r"line 2: part\.name is missing: a text that is not empty$"):
        read({}, "\n[part]\n")


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("count", "7", 7),
        ("count", "x", "x"),
        ("count", "1_000", "1_000"),
        ("count", " 5", " 5"),
        ("count", "5\nother = 1", "5\nother = 1"),
        ("count", "9" * 5_000, "9" * 5_000),
        ("count", "1979-05-27", "1979-05-27"),
        ("on", "true", True),
        ("on", "yes", "yes"),
        ("on", "1", "1"),
        ("name", "7", "7"),
    ],
)
def test_text_from_outside_is_what_the_file_would_have(key: str, text: str, value: object) -> None:
    assert SETTINGS[key].from_text(text) == value


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    assert known("colur", SETTINGS).endswith("folder, url; did you mean colour?")
    assert known("zzz", ["a", "b"]) == "known: a, b"


def test_an_address_is_a_host_and_a_port() -> None:
    assert read_address("h:0") == Address("h", 0)
    assert read_address("[fe80::1%lo]:1") == Address("fe80::1%lo", 1)
    assert read_address("bücher.example.:1") == Address("bücher.example.", 1)
    for wrong in ("h", "h:", ":1", "h:65536", "h:+1", "[]:1", 7, "a..b:1", "x" * 70 + ":1", "h\0:1"):
        with pytest.raises(ValueError):  # noqa: PT011 (the caller makes the sentence)
            read_address(wrong)


@pytest.mark.parametrize("url", ["http://a..b:7800", f"https://{'x' * 70}:7800"])
def test_a_host_that_has_no_form_on_the_wire_is_none(url: str) -> None:
    """A node whose member had such a URL logged a traceback at each attempt to connect."""
    assert read_url(url.replace("..", ".").replace("x" * 70, "x"))
    with pytest.raises(ValueError):  # noqa: PT011 (the caller makes the sentence)
        read_url(url)
