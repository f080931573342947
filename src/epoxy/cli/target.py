"""The options of commands that ask a node, and how they report a failure."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import quote_from_bytes

import click
from msgspec import Struct

from epoxy.cli import credentials, output
from epoxy.cli.groups import Interrupted
from epoxy.client import Client
from epoxy.client.limits import CONNECT_TIMEOUT_S, MAX_TIMEOUT_S, TIMEOUT_S
from epoxy.client.routing import fleet_of
from epoxy.client.token import TOKEN, TOKEN_FILE
from epoxy.model.errors import (
    EpoxyError,
    Forbidden,
    InvalidRequest,
    NoSession,
    NotRunning,
    OutcomeUnknown,
    Unauthenticated,
    WriteConflict,
)
from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.model.writes import Consistency

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_URL = "http://127.0.0.1:7800"
LOST, NOT_FOUND, NO_RIGHTS = 3, 4, 77
"""Exit codes, so that a script need not parse the output. Others: 0 done, 1 failed, 2 wrong usage. 77 is EX_NOPERM of
sysexits.h."""

INDEFINITE = "INDEFINITE: the write may have happened, or may still happen; read the key before you write it again"


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
    """The argument, byte for byte. If `stdin` is set, `-` stands for all of stdin."""

    name = "bytes"

    def __init__(self, *, stdin: bool = False) -> None:
        self._stdin = stdin

    def convert(self, value: Any, *_: object) -> bytes:
        if isinstance(value, bytes):
            return value
        if self._stdin and value == "-":
            return sys.stdin.buffer.read(MAX_VALUE_BYTES + 1)  # one byte too many is enough to refuse it
        return str(value).encode("utf-8", errors="surrogateescape")


def url_option(command: Command) -> Command:
    """--url, which the command gets as `urls`, and the options for what is shown there."""
    urls = click.option(
        "--url",
        "urls",
        type=Urls(),
        envvar="EPOXY_URL",
        default=DEFAULT_URL,
        show_default=True,
        show_envvar=True,
        help="The nodes to ask, nearest first.",
    )
    return urls(credentials.credential_options(command))


def connect(urls: str | list[str], *, timeout: float = TIMEOUT_S, connect_timeout: float = CONNECT_TIMEOUT_S) -> Client:
    """A client with the token and the certificate that the options of the command name."""
    try:
        return Client(
            urls, timeout=timeout, connect_timeout=connect_timeout, token=credentials.token(), tls=credentials.tls()
        )
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error


def read_option(name: str, words: str) -> Callable[[Any], Any]:
    """--read, which the command gets as `name`."""
    kinds = click.Choice([kind.value for kind in Consistency])
    default = Consistency.OPTIMISTIC.value
    return click.option("--read", name, type=kinds, default=default, show_default=True, help=words)


timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(0, MAX_TIMEOUT_S, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of the whole call.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
key_argument = click.argument("key", type=Argument())
value_argument = click.argument("value", type=Argument(stdin=True))


class NodeCall(Struct, frozen=True, kw_only=True):
    """Which nodes a command asks, for how long, and whether it prints JSON."""

    urls: list[str]
    timeout: float = TIMEOUT_S
    as_json: bool = False

    @contextmanager
    def client(self, *, writes: bool = False) -> Iterator[Client]:
        """An error inside is printed on one line and ends the command. After a failed write (`writes`) the line says
        whether the failure is definite."""
        with self.reporting(writes=writes), connect(self.urls, timeout=self.timeout) as client:
            yield client

    @contextmanager
    def reporting(self, *, writes: bool = False) -> Iterator[None]:
        """As `client`, for a command that makes clients of its own."""
        try:
            yield
        except EpoxyError as error:
            if self.as_json:
                output.emit_json(error_json(error))
            click.echo(f"epoxy: {in_words(error, writes=writes)}", err=True)
            raise click.exceptions.Exit(exit_code_of(error)) from error
        except KeyboardInterrupt:
            if writes:
                raise Interrupted(f"interrupted. {INDEFINITE}") from None
            raise


def call_options(command: Callable[..., None]) -> Callable[..., None]:
    """--url, --timeout and --json, which `command` gets as one `call`."""

    @wraps(command)
    def with_call(*, urls: list[str], timeout: float, as_json: bool, **named: Any) -> None:
        command(call=NodeCall(urls=urls, timeout=timeout, as_json=as_json), **named)

    return url_option(timeout_option(json_option(with_call)))


def exit_code_of(error: EpoxyError) -> int:
    if isinstance(error, InvalidRequest):
        return click.UsageError.exit_code
    if isinstance(error, Unauthenticated | Forbidden):
        return NO_RIGHTS
    if isinstance(error, NoSession):
        return NOT_FOUND
    return LOST if isinstance(error, WriteConflict) else 1


def in_words(error: EpoxyError, *, writes: bool) -> str:
    if isinstance(error, OutcomeUnknown):
        return f"{error}. {INDEFINITE}"
    if isinstance(error, NotRunning):
        return f"{error}. Definite: the actor was not asked"
    if isinstance(error, Unauthenticated):
        return f"{error}. {token_advice()}"
    if "certificate refused" in str(error) and credentials.given("tls_ca") is None:
        return f"{error}. --ca, or EPOXY_CA, names an authority of your own"
    if isinstance(error, InvalidRequest) or not writes:
        return str(error)
    return f"{error}. Definite: nothing was written"


def token_advice() -> str:
    if credentials.has_token():
        return "`epoxy auth token list` shows those there are; `epoxy auth init` on a node makes an operator's"
    return f"No token was given: --token-file, {TOKEN}, {TOKEN_FILE} or {credentials.home_text()}"


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
    """Percent-encoded, as in a URL: any bytes have such a form."""
    return quote_from_bytes(key, safe="/")
