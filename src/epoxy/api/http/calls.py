"""One request on its way to its one answer, and what the answers have in common."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from epoxy.api.counters import Counters
from epoxy.api.http.inputs import BadRequest, Parameters, parameters
from epoxy.api.http.routes import Route
from epoxy.codec.txn_json import as_text, quoted
from epoxy.model.api import KeyRecord, ReplacedValue
from epoxy.model.records import Proposal
from epoxy.model.writes import Path, Source
from epoxy.node.txn.transactions import is_of_transactions
from epoxy.protocol.access.principal import OPEN, Principal
from epoxy.transport.http.exchange import Exchange, Stream
from epoxy.transport.http.response import JSON, problem

Header = tuple[bytes, bytes]

OCTETS = b"application/octet-stream"

RETRY_AFTER_MS = 1000
"""The longest pause between a proposer's own retries: after that, what was too much may be over."""

RESULTS: Final = {
    **dict.fromkeys(range(200, 400), "ok"),
    **dict.fromkeys(range(400, 500), "invalid"),
    **dict.fromkeys(range(500, 600), "unavailable"),
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    429: "refused",
}
"""The word a status is counted under."""


OnAnswer = Callable[[int, str, bool], None]
"""Gets the status, the code of an error, and whether it is definite."""


Identify = Callable[["ApiCall"], Principal | None]
"""Whom the request shows to be its client, by what is in force now."""


class ApiCall:
    """An exchange that is counted, under the kind of its route. `principal`: the client that asks."""

    __slots__ = ("_began", "_observer", "_route", "exchange", "identify", "on_answer", "principal", "request", "target")

    def __init__(self, exchange: Exchange, route: Route, observer: Counters, principal: Principal = OPEN) -> None:
        self.request = exchange.request
        self.principal = principal
        self.target = ""
        """What the request is about, for the audit log."""
        self.on_answer: OnAnswer | None = None
        self.identify: Identify | None = None
        self.exchange = exchange
        self._route = route
        self._observer = observer
        self._began = perf_counter()

    @property
    def takes_sockets(self) -> bool:
        return self._route.sockets

    @property
    def wants_json(self) -> bool:
        accept = self.request.headers.get(b"accept")
        return accept is not None and JSON in accept

    def principal_now(self) -> Principal | None:
        """For what outlives the request: its principal, as it is now. None: what it showed is not in force any more."""
        return self.principal if self.identify is None else self.identify(self)

    def parameters(self) -> Parameters:
        """Those of the query. Any that the route does not have is refused."""
        return parameters(self.request.query, self._route.query_names)

    def answer(
        self,
        status: int,
        body: bytes = b"",
        *,
        content_type: bytes = OCTETS,
        headers: Sequence[Header] = (),
        lasting: tuple[bytes, ...] = (),
        code: str = "",
        definite: bool = True,
        length_known: bool = True,
    ) -> None:
        self.exchange.respond(
            status, body, content_type=content_type, headers=headers, lasting=lasting, length_known=length_known
        )
        self._count(status)
        if self.on_answer is not None:
            self.on_answer(status, code, definite)

    def json(self, status: int, value: object, headers: Sequence[Header] = ()) -> None:
        self.answer(status, msgspec.json.encode(value), content_type=JSON, headers=headers)

    def fail(
        self,
        status: int,
        code: str,
        message: str,
        *,
        definite: bool = True,
        retry_after_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> None:
        """Every error has this shape."""
        body = problem(code, message, definite=definite, retry_after_ms=retry_after_ms)
        more = [error_header(code), *headers]
        if retry_after_ms is not None:
            more.append((b"Retry-After", b"%d" % -(-retry_after_ms // 1000)))
        self.answer(status, body, content_type=JSON, headers=more, code=code, definite=definite)

    def overloaded(self, message: str) -> None:
        self.fail(429, "overloaded", message, retry_after_ms=RETRY_AFTER_MS)

    def reject(self, rejected: BadRequest) -> None:
        self.fail(rejected.status, rejected.code, rejected.message)

    def stream(self, content_type: bytes, headers: Sequence[Header], status: int = 200) -> Stream:
        """Counted when it begins: how long it lasts is up to the client."""
        self._count(status)
        return self.exchange.stream(status, content_type=content_type, headers=headers)

    def upgraded(self) -> None:
        """The connection speaks another protocol: counted as answered."""
        self._count(200)

    def _count(self, status: int) -> None:
        self._observer.request_handled(self._route.kind, RESULTS[status], perf_counter() - self._began)


def error_header(code: str) -> Header:
    """The code of an error, which is also there where the body is a value and not JSON."""
    return b"Epoxy-Error", code.encode()


def record(
    key: bytes,
    committed: Proposal,
    *,
    mine: bool | UnsetType = UNSET,
    path: Path | UnsetType = UNSET,
    source: Source | UnsetType = UNSET,
    previous: ReplacedValue | UnsetType | None = UNSET,
    first_version: int | UnsetType = UNSET,
    remaining_ms: int | None = None,
) -> KeyRecord:
    expiry = committed.expiry
    return KeyRecord(
        key=quoted(key),
        value=as_text(committed.value),
        value_base64=committed.value,
        version=committed.version,
        mutable=committed.mutable,
        deleted=committed.is_tombstone,
        mine=mine,
        path=path,
        source=source,
        previous=previous,
        first_version=first_version,
        ttl=expiry.ttl_ms if expiry is not None and expiry.ttl_ms else UNSET,
        remaining=remaining_ms if remaining_ms is not None else UNSET,
        since=expiry.since if expiry is not None else UNSET,
        session=expiry.session.hex() if expiry is not None and expiry.session else UNSET,
        engine="transactions" if is_of_transactions(committed) else UNSET,
    )
