"""Keys over HTTP: reserve, put, delete, get, and pages of them."""

from collections.abc import Sequence
from functools import partial
from typing import assert_never

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall, Header, error_header, record
from epoxy.api.http.inputs import (
    MAX_VERSION,
    BadRequest,
    Parameters,
    choice,
    fragment,
    key_of,
    number,
    parameters,
    spelled,
)
from epoxy.api.http.records import ConflictRecord, Page
from epoxy.model.records import MAX_VALUE_BYTES, Proposal
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
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
from epoxy.transport.http.response import Problem

KEYS = b"/v2/kv/"

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
"""Keys on a page: what a person scrolls through, and what a scan holds up the event loop for, some milliseconds."""

PUT_PARAMETERS = frozenset((b"mode", b"if_version"))
DELETE_PARAMETERS = frozenset((b"if_version",))
GET_PARAMETERS = frozenset((b"read",))
PAGE_PARAMETERS = frozenset((b"prefix", b"after", b"limit"))

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
"""Values are somebody's bytes. A browser must not guess that they are a page or a script of ours."""


class KeyRoutes:
    def __init__(self, node: Backend) -> None:
        self._node = node

    def get(self, call: ApiCall) -> None:
        """What this replica knows is answered at once, without a turn of the event loop."""
        request = call.request
        key = key_of(request.path[len(KEYS) :])
        consistency = consistency_of(request.query) if request.query else Consistency.OPTIMISTIC
        if consistency is not Consistency.LINEARIZABLE:
            here = self._node.peek(key)
            if here is not None and (consistency is Consistency.OPTIMISTIC or here.source is not Source.CACHE):
                answer_read(call, key, here)
                return
        self._node.read(key, consistency, partial(answer_read, call, key))

    def put(self, call: ApiCall) -> None:
        request = call.request
        key = key_of(request.path[len(KEYS) :])
        given = parameters(request.query, PUT_PARAMETERS)
        mutable = mode_of(given, request.headers) == b"put"
        if_version = number(given, b"if_version", low=0, high=MAX_VERSION)
        if if_version is not None and not mutable:
            raise BadRequest(400, "bad_parameter", "if_version belongs to mode=put: a reserved name has one version")
        write = Write(key=key, value=body_of(call), mutable=mutable, if_version=if_version)
        self._node.write(write, partial(answer_write, call, key))

    def delete(self, call: ApiCall) -> None:
        key = key_of(call.request.path[len(KEYS) :])
        given = parameters(call.request.query, DELETE_PARAMETERS)
        if_version = number(given, b"if_version", low=0, high=MAX_VERSION)
        write = Write(key=key, value=None, mutable=True, if_version=if_version)
        self._node.write(write, partial(answer_write, call, key))

    def page(self, call: ApiCall) -> None:
        given = parameters(call.request.query, PAGE_PARAMETERS)
        limit = number(given, b"limit", low=1, high=MAX_LIMIT) or DEFAULT_LIMIT
        rows = self._node.page(fragment(given, b"prefix"), fragment(given, b"after") or None, limit)
        keys = [record(key, committed) for key, committed in rows if not committed.is_tombstone]
        call.json(200, Page(keys=keys, next=spelled(rows[-1][0]) if may_go_on(rows, limit) else None))


def may_go_on(rows: Sequence[tuple[bytes, Proposal]], limit: int) -> bool:
    """Whether a page ended because it was full."""
    return len(rows) == limit or sum([len(committed.value or b"") for _, committed in rows]) >= PAGE_BYTES


def consistency_of(query: bytes) -> Consistency:
    text = parameters(query, GET_PARAMETERS).get(b"read", b"optimistic")
    return READS[choice("read", text, tuple(READS))]


def mode_of(given: Parameters, headers: Parameters) -> bytes:
    """In the query or in a header. Two that differ are a mistake, and guessing which is not for us."""
    modes = [
        mode for mode in (given.get(b"mode"), headers.get(b"epoxy-mode"), headers.get(b"mode")) if mode is not None
    ]
    if len(set(modes)) > 1:
        raise BadRequest(400, "bad_parameter", "mode is given in two places, and they differ")
    return choice("mode", modes[0], MODES) if modes else b"reserve"


def body_of(call: ApiCall) -> bytes:
    """An empty value must be said (Content-Length: 0): a name reserved for nothing by a forgotten body stays so."""
    request = call.request
    if not request.body and b"content-length" not in request.headers and b"transfer-encoding" not in request.headers:
        raise BadRequest(411, "length_required", "the value is the body; for an empty one send Content-Length: 0")
    if len(request.body) > MAX_VALUE_BYTES:
        raise BadRequest(413, "body_too_large", f"the body has more than {MAX_VALUE_BYTES} bytes")
    return request.body


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
                lasting = not committed.mutable and outcome.source in HERE
                call.answer(200, committed.value, headers=headers, lasting=lasting)
        case ReadFailed():
            call.fail(503, "read_failed", outcome.reason, retry_after_ms=RETRY_AFTER_MS)
        case Refused():
            turn_away(call, outcome)
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
            call.json(409, ConflictRecord(error=error, committed=None), (error_header("wrong_engine"),))
        case ImmutableKey():
            answer_conflict(call, key, outcome, "immutable", "the name is reserved, for ever")
        case NothingToDelete():
            headers = write_headers(outcome.committed, outcome.path, mine=False)
            call.fail(404, "not_found", "there is nothing to delete under this key", headers=headers)
        case Refused():
            turn_away(call, outcome)
        case ConsensusFailed():
            message = f"the outcome is unknown: {outcome.reason}. The write may still take effect"
            call.fail(503, "consensus_failed", message, definite=False)
        case _:
            assert_never(outcome)


def turn_away(call: ApiCall, refused: Refused) -> None:
    call.fail(429, "overloaded", f"turned away: {refused.reason}", retry_after_ms=RETRY_AFTER_MS)


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
    outcome: ExpectedValueDoesNotMatch | VersionMismatch | ImmutableKey,
    code: str,
    words: str,
) -> None:
    """What is there comes along, as it is or in JSON."""
    committed = outcome.committed
    headers = (error_header(code), OPAQUE, *write_headers(committed, outcome.path, mine=False))
    if call.wants_json:
        there = record(key, committed) if committed is not None else None
        error = Problem(code=code, message=words, definite=True)
        call.json(409, ConflictRecord(error=error, committed=there), headers)
    else:
        call.answer(409, (committed.value if committed is not None else None) or b"", headers=headers)


def write_headers(committed: Proposal | None, path: Path, *, mine: bool) -> Sequence[Header]:
    return (PATHS[path], MINE[mine]) + (about(committed) if committed is not None else ())
