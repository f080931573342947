"""Keys over HTTP: reserve, put, delete, get, and pages of them."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import assert_never
from urllib.parse import quote_from_bytes

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall, Header, error_header, record
from epoxy.api.http.inputs import BadRequest, Parameters, choice, fragment, key_of, number
from epoxy.api.http.permissions import check_list, check_read, check_stored, check_write
from epoxy.api.http.routes import (
    JSON,
    KEY,
    NO_LENGTH,
    OCTETS,
    OTHER_PATH,
    Parameter,
    Route,
    RouteAnswer,
    overloaded,
    refusal,
)
from epoxy.api.http.routes_status import not_ready
from epoxy.codec.txn_json import quoted
from epoxy.model.access import MAX_GRANTS, Access
from epoxy.model.api import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_VERSION,
    Engine,
    KeyConflict,
    KeyPage,
    KeyPart,
    KeyRecord,
    Limit,
    Problem,
    Version,
    WriteMode,
)
from epoxy.model.records import MAX_VALUE_BYTES, Proposal
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    Path,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Refused,
    Source,
    VersionMismatch,
    Write,
)
from epoxy.node.keys.listing import PAGE_BYTES
from epoxy.node.txn.transactions import is_of_transactions, is_owned
from epoxy.protocol.access.principal import Principal
from epoxy.transport.http.header_memo import EVERYWHERE

KEYS = b"/v2/kv/"

MODES = (b"reserve", b"put")
READS = {consistency.value.encode(): consistency for consistency in Consistency}

MUTABLE = {flag: (b"Epoxy-Mutable", str(flag).lower().encode()) for flag in (True, False)}
MINE = {flag: (b"Epoxy-Mine", str(flag).lower().encode()) for flag in (True, False)}
PATHS = {path: (b"Epoxy-Path", path.value.encode()) for path in Path}
SOURCES = {source: (b"Epoxy-Source", source.value.encode()) for source in Source}
HERE = (Source.LOCAL, Source.LEGACY)
"""Committed and durable at this replica. A reserved name that was found here is found here for ever."""

OF_TRANSACTIONS = (b"Epoxy-Engine", b"transactions")
"""Such a key has no versions, and its version reads 0."""

OPAQUE = (b"X-Content-Type-Options", b"nosniff")
"""Values are a client's bytes. A browser must not guess that they are a page or a script of this node's."""

COMMITTED_HEADERS = {
    "Epoxy-Version": (Version, "The committed version; 0 is a value of the first layout, or of transactions."),
    "Epoxy-Mutable": (bool, "Whether it can change."),
    "Epoxy-Engine": (Engine, "Only of a key that belongs to transactions: it has no versions."),
}
WRITE_HEADERS = {
    "Epoxy-Path": (Path, "How far the write had to travel."),
    "Epoxy-Mine": (bool, "Whether this very request made what is committed."),
}
VALUE_OR_RECORD = {OCTETS: bytes, JSON: KeyRecord}
CONFLICT = RouteAnswer(
    "Not written, because of what is committed, which is the body.",
    {OCTETS: bytes, JSON: KeyConflict},
    WRITE_HEADERS,
    ("taken", "immutable", "version_mismatch", "wrong_engine"),
)
BAD_KEY = refusal("The request is outside the contract.", "bad_key")
UNDECIDED = refusal("No decision in time (the write may still take effect), or not ready.", "consensus_failed")


def written(description: str) -> RouteAnswer:
    return RouteAnswer(description, VALUE_OR_RECORD, COMMITTED_HEADERS | WRITE_HEADERS)


def if_version(words: str) -> Parameter:
    return Parameter("if_version", Version, f"Only if this is the committed version; 0: never written. {words}")


class KeyRoutes:
    def __init__(self, node: Backend) -> None:
        self._node = node

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/kv/{key}",
                handler=self.get,
                kind="http_get_key",
                access=Access.READ,
                operation="getKey",
                local=True,
                summary="Read a key",
                parameters=(KEY, Parameter("read", Consistency, "How sure to be.", "optimistic")),
                answers={
                    200: RouteAnswer(
                        "The value.",
                        VALUE_OR_RECORD,
                        COMMITTED_HEADERS | {"Epoxy-Source": (Source, "Where the answer was found.")},
                    ),
                    400: BAD_KEY,
                    404: refusal("Absent. A key that was deleted still has an Epoxy-Version.", "not_found"),
                    429: overloaded(),
                    503: refusal("Too few replicas answered, or not ready.", "read_failed"),
                },
            ),
            Route(
                method="PUT",
                path="/v2/kv/{key}",
                handler=self.put,
                kind="http_put_key",
                access=Access.WRITE,
                operation="putKey",
                local=True,
                summary="Reserve a name, or write a mutable key",
                parameters=(
                    KEY,
                    Parameter("mode", WriteMode, "Take a free name for ever, or write a version.", "reserve"),
                    Parameter("Epoxy-Mode", WriteMode, "As the parameter; they must agree.", place="header"),
                    if_version("With mode=put only."),
                ),
                body={OCTETS: bytes},
                body_description="The value, up to 1 MiB.",
                answers={
                    200: written("It was there: the same value reserved before, or a newer version of a mutable key."),
                    201: written("This write made the key."),
                    400: BAD_KEY,
                    404: OTHER_PATH,
                    409: CONFLICT,
                    411: NO_LENGTH,
                    429: overloaded(),
                    503: UNDECIDED,
                },
            ),
            Route(
                method="DELETE",
                path="/v2/kv/{key}",
                handler=self.delete,
                kind="http_delete_key",
                access=Access.WRITE,
                operation="deleteKey",
                summary="Delete a mutable key",
                parameters=(KEY, if_version("Delete only this version.")),
                answers={
                    200: written("Deleted: the version is that of the tombstone."),
                    400: BAD_KEY,
                    404: refusal("There is nothing to delete.", "not_found", "no_such_route"),
                    409: CONFLICT,
                    429: overloaded(),
                    503: UNDECIDED,
                },
            ),
            Route(
                method="GET",
                path="/v2/kv",
                handler=self.page,
                kind="http_get_keys",
                access=Access.READ,
                operation="listKeys",
                local=True,
                summary="Committed keys of this replica, in order",
                parameters=(
                    Parameter("prefix", KeyPart, "Only keys that begin with this."),
                    Parameter("after", KeyPart, "Only keys beyond this one: `next` of the page before."),
                    Parameter("limit", Limit, "Keys on the page.", DEFAULT_LIMIT),
                ),
                answers={200: RouteAnswer("A page.", {JSON: KeyPage})},
            ),
        ]

    def get(self, call: ApiCall) -> None:
        """What this replica knows is answered at once, without a turn of the event loop."""
        request = call.request
        key = key_of(request.path[len(KEYS) :])
        if not call.principal.reads_all:
            check_read(call.principal, key)
        consistency = consistency_of(call.parameters()) if request.query else Consistency.OPTIMISTIC
        if consistency is not Consistency.LINEARIZABLE:
            here = self._node.peek(key)
            if here is not None and (consistency is Consistency.OPTIMISTIC or here.source is not Source.CACHE):
                answer_read(call, key, here)
                return
        self._node.read(key, consistency, partial(answer_read, call, key))

    def put(self, call: ApiCall) -> None:
        request = call.request
        key = key_of(request.path[len(KEYS) :])
        check_write(call.principal, key)
        given = call.parameters()
        mutable = mode_of(given, request.headers) == b"put"
        if_version = number(given, b"if_version", low=0, high=MAX_VERSION)
        if if_version is not None and not mutable:
            raise BadRequest(400, "bad_parameter", "if_version belongs to mode=put: a reserved name has one version")
        write = Write(key=key, value=body_of(call), mutable=mutable, if_version=if_version)
        if call.principal.stored_bytes:
            check_stored(self._node, call.principal, len(key) + len(write.value or b""))
        self._write(call, write, answer_write if self._node.ready else self._answer_unready)

    def _write(self, call: ApiCall, write: Write, answered: "Callable[[ApiCall, bytes, Outcome], None]") -> None:
        if not call.principal.stored_bytes:
            self._node.write(write, partial(answered, call, write.key))
            return

        def charged(outcome: Outcome) -> None:
            self._node.quotas.charge(call.principal, write.key, outcome)
            answered(call, write.key, outcome)

        self._node.write(write, charged)

    def _answer_unready(self, call: ApiCall, key: bytes, outcome: Outcome) -> None:
        """Names that are taken are known to a node that takes no writes yet."""
        if isinstance(outcome, Refused):
            not_ready(call, self._node)
        else:
            answer_write(call, key, outcome)

    def delete(self, call: ApiCall) -> None:
        key = key_of(call.request.path[len(KEYS) :])
        check_write(call.principal, key)
        given = call.parameters()
        if_version = number(given, b"if_version", low=0, high=MAX_VERSION)
        write = Write(key=key, value=None, mutable=True, if_version=if_version)
        self._write(call, write, answer_write)

    def page(self, call: ApiCall) -> None:
        given = call.parameters()
        limit = number(given, b"limit", low=1, high=MAX_LIMIT) or DEFAULT_LIMIT
        prefix = fragment(given, b"prefix")
        check_list(call.principal, prefix)
        rows = self._node.page(prefix, fragment(given, b"after") or None, limit)
        keys = [record(key, committed) for key, committed in rows if not committed.is_tombstone]
        call.json(200, KeyPage(keys=keys, next=quoted(rows[-1][0]) if may_go_on(rows, limit) else None))


def may_go_on(rows: Sequence[tuple[bytes, Proposal]], limit: int) -> bool:
    """Whether a page ended because it was full."""
    return len(rows) == limit or sum([len(committed.value or b"") for _, committed in rows]) >= PAGE_BYTES


def consistency_of(given: Parameters) -> Consistency:
    return READS[choice("read", given.get(b"read", b"optimistic"), tuple(READS))]


def mode_of(given: Parameters, headers: Parameters) -> bytes:
    """In the query or in a header. Two that differ are refused."""
    modes = [
        mode for mode in (given.get(b"mode"), headers.get(b"epoxy-mode"), headers.get(b"mode")) if mode is not None
    ]
    if len(set(modes)) > 1:
        raise BadRequest(400, "bad_parameter", "mode is given in two places, and they differ")
    return choice("mode", modes[0], MODES) if modes else b"reserve"


def body_of(call: ApiCall) -> bytes:
    """An empty value must be declared (Content-Length: 0): a name reserved by a forgotten body would stay empty."""
    request = call.request
    if not request.body and b"content-length" not in request.headers and b"transfer-encoding" not in request.headers:
        raise BadRequest(411, "length_required", "the value is the body; for an empty one send Content-Length: 0")
    if len(request.body) > MAX_VALUE_BYTES:
        raise BadRequest(413, "body_too_large", f"the body has more than {MAX_VALUE_BYTES} bytes")
    return request.body


@lru_cache(MAX_GRANTS)
def addresses(principal: Principal) -> tuple[bytes, ...]:
    """How the addresses begin of keys that it may read: as our clients encode a key, and as it is, if all that it has
    means itself in a path. In other encodings, which are rare, an address is not found here, and its key is checked."""
    if principal.requests_per_s:
        return ()  # Its requests are counted, and answers from the cache would not be.
    if principal.reads_all:
        return EVERYWHERE
    encoded = [quote_from_bytes(prefix, safe="").encode() for prefix in principal.grant.prefixes]
    plain = [prefix for prefix in principal.grant.prefixes if PLAIN.fullmatch(prefix)]
    return tuple([KEYS + prefix for prefix in dict.fromkeys([*encoded, *plain])])


PLAIN = re.compile(rb"[A-Za-z0-9._~/:@!$&'()*+,;=-]*")
"""Bytes that mean themselves in a path: none that ends it."""


def about(committed: Proposal) -> tuple[Header, ...]:
    told = (b"Epoxy-Version", b"%d" % committed.version), MUTABLE[committed.mutable]
    return (*told, OF_TRANSACTIONS) if is_of_transactions(committed) else told


def answer_read(call: ApiCall, key: bytes, outcome: ReadAnswer) -> None:
    match outcome:
        case ReadResult():
            committed = outcome.committed
            headers = (SOURCES[outcome.source], OPAQUE) + (about(committed) if committed is not None else ())
            if committed is None or committed.value is None:
                call.fail(404, "not_found", "no value is committed under this key", headers=headers)
            elif call.wants_json:
                call.json(200, record(key, committed, source=outcome.source), headers)
            else:
                stays = not committed.mutable and outcome.source in HERE
                lasting = addresses(call.principal) if stays else ()
                call.answer(200, committed.value, headers=headers, lasting=lasting)
        case ReadFailed():
            call.fail(503, "read_failed", outcome.reason, retry_after_ms=RETRY_AFTER_MS)
        case Refused():
            call.overloaded(f"turned away: {outcome.reason}")
        case _:
            assert_never(outcome)


def answer_write(call: ApiCall, key: bytes, outcome: Outcome) -> None:
    match outcome:
        case Committed():
            answer_committed(call, key, outcome)
        case ExpectedValueDoesNotMatch():
            answer_conflict(call, key, outcome, "taken", "the name is held by another value")
        case VersionMismatch():
            answer_conflict(call, key, outcome, "version_mismatch", "if_version is not the committed version")
        case ImmutableKey() if is_owned(outcome.committed):
            error = Problem(
                code="wrong_engine", message="the key belongs to transactions: POST /v2/txn, `epoxy txn`", definite=True
            )
            call.json(409, KeyConflict(error=error, committed=None), (error_header("wrong_engine"),))
        case ImmutableKey():
            answer_conflict(call, key, outcome, "immutable", "the name is reserved, for ever")
        case NothingToDelete():
            headers = write_headers(outcome.committed, outcome.path, mine=False)
            call.fail(404, "not_found", "there is nothing to delete under this key", headers=headers)
        case NotAnInteger():
            answer_conflict(call, key, outcome, "not_an_integer", outcome.reason)
        case Refused():
            call.overloaded(f"turned away: {outcome.reason}")
        case ConsensusFailed():
            message = f"the outcome is unknown: {outcome.reason}. The write may still take effect"
            call.fail(503, "consensus_failed", message, definite=False)
        case _:
            assert_never(outcome)


def answer_committed(call: ApiCall, key: bytes, outcome: Committed) -> None:
    proposal = outcome.proposal
    status = 201 if outcome.mine and made_a_key(outcome) else 200
    headers = write_headers(proposal, outcome.path, mine=outcome.mine)
    if call.wants_json:
        call.json(status, record(key, proposal, mine=outcome.mine, path=outcome.path), headers)
    else:
        call.answer(status, headers=headers)


def made_a_key(outcome: Committed) -> bool:
    """Where there was none, or none any more. A reserve never replaces a live value."""
    absent_before = outcome.previous is None or outcome.previous.is_tombstone
    return absent_before and not outcome.proposal.is_tombstone


def answer_conflict(
    call: ApiCall,
    key: bytes,
    outcome: ExpectedValueDoesNotMatch | VersionMismatch | ImmutableKey | NotAnInteger,
    code: str,
    message: str,
) -> None:
    """The body is what is committed, as it is or in JSON."""
    committed = outcome.committed
    headers = (error_header(code), OPAQUE, *write_headers(committed, outcome.path, mine=False))
    if call.wants_json:
        there = record(key, committed) if committed is not None else None
        error = Problem(code=code, message=message, definite=True)
        call.json(409, KeyConflict(error=error, committed=there), headers)
    else:
        call.answer(409, (committed.value if committed is not None else None) or b"", headers=headers)


def write_headers(committed: Proposal | None, path: Path, *, mine: bool) -> Sequence[Header]:
    return (PATHS[path], MINE[mine]) + (about(committed) if committed is not None else ())
