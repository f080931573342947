"""The answers to reads and writes of a key over HTTP, as values with headers or as JSON."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import assert_never
from urllib.parse import quote_from_bytes

from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall, Header, error_header, record
from epoxy.codec.txn_json import as_text
from epoxy.model.access import MAX_GRANTS
from epoxy.model.api import KeyConflict, Problem, ReplacedValue
from epoxy.model.records import Proposal
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
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
)
from epoxy.node.txn.transactions import is_of_transactions, is_owned
from epoxy.protocol.access.principal import Principal
from epoxy.transport.http.header_memo import EVERYWHERE

KEYS = b"/v2/kv/"

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
        case Refused() if outcome.no_quorum:
            call.fail(503, "no_quorum", outcome.reason, retry_after_ms=RETRY_AFTER_MS)
        case Refused():
            call.overloaded(f"turned away: {outcome.reason}")
        case ConsensusFailed():
            message = f"the outcome is unknown: {outcome.reason}. The write may have taken effect, or may still"
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


def answer_replacing(call: ApiCall, key: bytes, outcome: Outcome) -> None:
    """Of a write that is `returning`: with what was there before."""
    if not isinstance(outcome, Committed):
        answer_write(call, key, outcome)
        return
    proposal, previous = outcome.proposal, outcome.previous
    status = 201 if made_a_key(outcome) else 200
    headers = (OPAQUE, *write_headers(proposal, outcome.path, mine=True))
    was = previous.value if previous is not None else None
    if previous is not None and was is not None:
        headers = (*headers, (b"Epoxy-Previous-Version", b"%d" % previous.version))
    if call.wants_json:
        there = None
        if previous is not None and was is not None:
            there = ReplacedValue(value=as_text(was), value_base64=was, version=previous.version)
        call.json(status, record(key, proposal, mine=True, path=outcome.path, previous=there), headers)
    else:
        call.answer(status, was or b"", headers=headers)


def answer_sum(call: ApiCall, key: bytes, outcome: Outcome) -> None:
    """Of a write that adds: with what it came to."""
    if not isinstance(outcome, Committed) or call.wants_json:
        answer_write(call, key, outcome)
        return
    proposal = outcome.proposal
    headers = write_headers(proposal, outcome.path, mine=True)
    call.answer(201 if made_a_key(outcome) else 200, proposal.value or b"", headers=(OPAQUE, *headers))


def made_a_key(outcome: Committed) -> bool:
    """Where there was none, or none any more. A reserve never replaces a live value. If what was there is not known,
    the first version tells."""
    proposal, previous = outcome.proposal, outcome.previous
    if proposal.is_tombstone:
        return False
    if previous is not None:
        return previous.is_tombstone
    return not proposal.mutable or proposal.version == 1


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
