"""The token a client shows: where it comes from, and where it may be sent.

It is in no representation, error or log. It is not sent unencrypted to another machine unless the caller says so:
what was once on the wire in plain text cannot be taken back, and the typo of http for https would be enough.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path

from epoxy.client.http1 import NodeAddress
from epoxy.model.errors import InvalidRequest

TOKEN, TOKEN_FILE, OVER_HTTP = "EPOXY_TOKEN", "EPOXY_TOKEN_FILE", "EPOXY_TOKEN_OVER_HTTP"

MAX_TOKEN_BYTES = 1024
"""A token has 47 characters. A longer text is another file by mistake, and is not sent anywhere."""


class BearerToken:
    """Read again from its file, if it has one, when a node refuses it: by then it may have been replaced."""

    __slots__ = ("_file", "_text")

    def __init__(self, text: str = "", file: Path | None = None) -> None:
        self._file = file
        self._text = read_token(file) if file is not None else checked(text, "the token")

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"BearerToken({'...' if self._text else 'none'})"

    def header(self) -> str:
        """The header line with its end; none without a token."""
        return f"Authorization: {self.value()}\r\n" if self._text else ""

    def value(self) -> str:
        return f"Bearer {self._text}"

    def differs_from(self, refused: str) -> bool:
        """Whether the token in the file is not, or is no longer, the one of the value that was refused. Another thread
        may have read it anew meanwhile."""
        if self._file is None:
            return False
        with contextlib.suppress(InvalidRequest):
            self._text = read_token(self._file)
        return self.value() != refused


def token_of(given: str | Path | None, environ: Mapping[str, str] = os.environ) -> BearerToken:
    """`given`: a token, the file of one, or "" for none. None: what the environment says."""
    if isinstance(given, Path):
        return BearerToken(file=given)
    if given is not None:
        return BearerToken(given)
    if text := environ.get(TOKEN):
        return BearerToken(checked(text, TOKEN))
    if file := environ.get(TOKEN_FILE):
        return BearerToken(file=Path(file))
    return NO_TOKEN


def read_token(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise InvalidRequest(f"the token in {file} cannot be read: {(error.strerror or 'it failed').lower()}") from None
    text = checked(raw.decode("utf-8", "replace"), f"what is in {file}")
    if not text:
        raise InvalidRequest(f"{file} is empty; a token is expected there")
    return text


def checked(text: str, what: str) -> str:
    """The message does not quote it."""
    plain = text.strip()
    if len(plain) > MAX_TOKEN_BYTES or not all("!" <= letter <= "~" for letter in plain):
        raise InvalidRequest(f"{what} is no token: one line without spaces, as `epoxy auth token create` prints it")
    return plain


def check_encrypted(token: BearerToken, nodes: Iterable[NodeAddress], *, over_http: bool | None) -> None:
    """Raises InvalidRequest if the token would leave this machine in plain text. `over_http` None: what the environment
    says."""
    allowed = os.environ.get(OVER_HTTP) == "1" if over_http is None else over_http
    if not token or allowed:
        return
    for node in nodes:
        if not node.secure and not is_loopback(node.host):
            raise InvalidRequest(
                f"the token would be sent to {node.url} unencrypted; use https, or, if that network is your own, allow "
                f"it with {OVER_HTTP}=1 (in Python: token_over_http=True)"
            )


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


NO_TOKEN = BearerToken()
