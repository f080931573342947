"""The few shapes in which every command speaks. rich is loaded only by those that draw: it takes as long as a whole
`epoxy get`."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

import click
import msgspec

LABEL = 20
"""Columns for what stands on the left of a summary."""

PIPE_WIDTH = 200
"""A pipe has no width, so nothing should be broken there."""

SHOWN = 80
"""Of a key or a value on a line of ours: the rest is for `epoxy get`."""


def emit_json(document: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())


def emit_json_line(document: object) -> None:
    """One of many: a program reads them line by line, as they come."""
    click.echo(msgspec.json.encode(document).decode())


def spinner(words: str) -> AbstractContextManager[object]:
    """For work that cannot say how far it is. Silent when nobody is looking."""
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
    """Bytes on one line, for people: text as it is, everything else escaped, and not too much of it. An
    empty value is two quotes: a gap in the sentence would look like a mistake."""
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
