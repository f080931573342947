"""How commands print: rows, blocks, tables and JSON. rich is imported only where it is used: that takes as long as a
whole `epoxy get`."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

import click
import msgspec

LABEL = 20
"""Width of the labels of a summary."""

PIPE_WIDTH = 200
"""A pipe has no width: lines are not wrapped there."""

SHOWN = 80
"""Characters of a key or a value in a message; `epoxy get` prints all of it."""


def emit_json(document: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())


def emit_json_line(document: object) -> None:
    """One line of a stream of JSON documents."""
    click.echo(json_line(document))


def json_line(document: object) -> str:
    return msgspec.json.encode(document).decode()


def spinner(words: str) -> AbstractContextManager[object]:
    """For work of unknown length. Prints nothing unless stderr is a terminal."""
    from rich.console import Console

    return Console(stderr=True).status(words)


def row(label: str, text: str) -> None:
    click.echo(f"  {label:<{LABEL}}{text}")


def block(title: str, lines: list[str]) -> None:
    click.secho(f"\n{title}", bold=True)
    for line in lines:
        click.echo(f"  {line}")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for cells in rows:
        drawn.add_row(*(Text(cell) for cell in cells))
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH).print(drawn)


def text_of(raw: bytes) -> str:
    """Bytes on one line of a message: text as it is, everything else escaped, cut after `SHOWN` characters. An empty
    value is shown as two quotes."""
    if not raw:
        return '""'
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = repr(raw)[2:-1]
    shown = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}... ({len(raw):,} bytes)"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration(seconds: float) -> str:
    """In its two largest units."""
    units = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    left, parts = int(seconds), []
    for name, size in units:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2]) or "less than a second"
