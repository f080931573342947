"""Which node a command talks to, and how it says that things went wrong."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote_from_bytes

import click

from epoxy.cli import output
from epoxy.cli.groups import Interrupted
from epoxy.client import Client
from epoxy.client.limits import MAX_TIMEOUT_S, TIMEOUT_S
from epoxy.client.routing import fleet_of
from epoxy.model.errors import EpoxyError, InvalidRequest, NotRunning, OutcomeUnknown, WriteConflict
from epoxy.model.records import MAX_VALUE_BYTES

DEFAULT_URL = "http://127.0.0.1:7800"
LOST, NOT_FOUND = 3, 4
"""Exit codes of their own, so that a script need not read. 0: done. 1: failed. 2: wrong usage."""

INDEFINITE = "INDEFINITE: the write may have happened, or may still; look before you write again"


class Urls(click.ParamType[list[str]]):
    name = "URL[,URL]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        if isinstance(value, list):
            return value
        urls = [url.strip() for url in str(value).split(",") if url.strip()]
        try:
            return [node.url for node in fleet_of(urls).nodes]
        except InvalidRequest as error:
            self.fail(str(error), param, ctx)


class Argument(click.ParamType[bytes]):
    """What was typed, byte for byte. `-` stands for all of stdin, if `stdin` is set."""

    name = "bytes"

    def __init__(self, *, stdin: bool = False) -> None:
        self._stdin = stdin

    def convert(self, value: Any, *_: object) -> bytes:
        if isinstance(value, bytes):
            return value
        if self._stdin and value == "-":
            return sys.stdin.buffer.read(MAX_VALUE_BYTES + 1)  # one too many is noticed; more need not be read
        return str(value).encode("utf-8", errors="surrogateescape")


url_option = click.option(
    "--url",
    "urls",
    type=Urls(),
    envvar="EPOXY_URL",
    default=DEFAULT_URL,
    show_default=True,
    show_envvar=True,
    help="Nodes, nearest first.",
)
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(0, MAX_TIMEOUT_S, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="For the whole call.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
key_argument = click.argument("key", type=Argument())
value_argument = click.argument("value", type=Argument(stdin=True))


@contextmanager
def talking_to(urls: list[str], timeout: float, *, as_json: bool, writes: bool = False) -> Iterator[Client]:
    """Whatever goes wrong inside is told in one line, with the words that matter after a failed write."""
    try:
        with Client(urls, timeout=timeout) as client:
            yield client
    except EpoxyError as error:
        if as_json:
            output.emit_json(error_json(error))
        click.echo(f"epoxy: {in_words(error, writes=writes)}", err=True)
        raise click.exceptions.Exit(exit_code_of(error)) from error
    except KeyboardInterrupt:
        if writes:
            raise Interrupted(f"interrupted. {INDEFINITE}") from None
        raise


def exit_code_of(error: EpoxyError) -> int:
    match error:
        case InvalidRequest():
            return click.UsageError.exit_code
        case WriteConflict():
            return LOST
        case _:
            return 1


def in_words(error: EpoxyError, *, writes: bool) -> str:
    if isinstance(error, OutcomeUnknown):
        return f"{error}. {INDEFINITE}"
    if isinstance(error, NotRunning):
        return f"{error}. Definite: the actor was not asked"
    if isinstance(error, InvalidRequest) or not writes:
        return str(error)
    return f"{error}. Definite: nothing was written"


def error_json(error: EpoxyError) -> dict[str, object]:
    told: dict[str, object] = {"code": type(error).__name__, "message": str(error), "definite": error.definite}
    if isinstance(error, WriteConflict):
        told |= {"committed": {**value_json(error.value), "version": error.version}}
    return {"error": told}


def value_json(value: bytes | None) -> dict[str, object]:
    """`value_base64` is exact; `value` is the same as text, if it is text."""
    try:
        text = value.decode() if value is not None else None
    except UnicodeDecodeError:
        text = None
    return {"value": text, "value_base64": value}


def key_json(key: bytes) -> str:
    """As an address has it, which any bytes fit into."""
    return quote_from_bytes(key, safe="/")
