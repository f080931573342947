"""The answers to reads and writes of a key over HTTP, as values with headers or as JSON."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import assert_never
from urllib.parse import quote_from_bytes

from epoxy.api.http.backend import LeaseCounts
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall, Header, error_header, record
from epoxy.codec.txn_json import as_text
from epoxy.model.access import MAX_GRANTS
from epoxy.model.api import KeyConflict, Problem, ReplacedValue
from epoxy.model.marks import is_owned
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
    Unchanged,
    VersionMismatch,
)
from epoxy.node.txn.transactions import is_of_transactions
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


def ttl_header(leases: LeaseCounts, key: bytes, committed: Proposal) -> tuple[Header, ...]:
    """What is left of its time to live, if it has one."""
    remaining_ms = leases.remaining_ms(key, committed) if committed.expiry is not None else None
    return () if remaining_ms is None else ((b"Epoxy-Ttl", b"%d" % remaining_ms),)


def stays(outcome: ReadResult) -> bool:
    """Whether this answer is the same for ever, so that the next one need not ask: of a reserved name only. What can be
    overwritten, or expire, is looked up each time."""
    return outcome.committed is not None and not outcome.committed.mutable and outcome.source in HERE


def answer_read(leases: LeaseCounts, call: ApiCall, key: bytes, outcome: ReadAnswer) -> None:
    match outcome:
        case ReadResult():
            committed = outcome.committed
            headers: tuple[Header, ...] = (SOURCES[outcome.source], OPAQUE)
            if committed is not None:
                headers += about(committed)
                if committed.expiry is not None:
                    headers += ttl_header(leases, key, committed)
            if committed is None or committed.value is None:
                call.fail(404, "not_found", "no value is committed under this key", headers=headers)
            elif call.wants_json:
                left = leases.remaining_ms(key, committed)
                call.json(200, record(key, committed, source=outcome.source, remaining_ms=left), headers)
            else:
                lasting = addresses(call.principal) if stays(outcome) else ()
                call.answer(200, committed.value, headers=headers, lasting=lasting)
        case ReadFailed():
            call.fail(503, "read_failed", outcome.reason, retry_after_ms=RETRY_AFTER_MS)
        case Refused():
            call.overloaded(f"turned away: {outcome.reason}")
        case _:
            assert_never(outcome)


def answer_write(leases: LeaseCounts, call: ApiCall, key: bytes, outcome: Outcome) -> None:
    match outcome:
        case Committed():
            answer_committed(leases, call, key, outcome)
        case ExpectedValueDoesNotMatch():
            answer_conflict(leases, call, key, outcome, "taken", "the name is held by another value")
        case VersionMismatch():
            answer_conflict(leases, call, key, outcome, "version_mismatch", "if_version is not the committed version")
        case ImmutableKey() if is_owned(outcome.committed):
            error = Problem(
                code="wrong_engine",
                message="the key was used in a transaction, and cannot be reserved any more; mode=put works",
                definite=True,
            )
            call.json(409, KeyConflict(error=error, committed=None), (error_header("wrong_engine"),))
        case ImmutableKey():
            answer_conflict(leases, call, key, outcome, "immutable", "the name is reserved, for ever")
        case NothingToDelete():
            headers = write_headers(outcome.committed, outcome.path, mine=False)
            call.fail(404, "not_found", "there is nothing under this key", headers=headers)
        case NotAnInteger():
            answer_conflict(leases, call, key, outcome, "not_an_integer", outcome.reason)
        case Refused():
            answer_refused(call, outcome)
        case ConsensusFailed():
            message = f"the outcome is unknown: {outcome.reason}. The write may have taken effect, or may still"
            call.fail(503, "consensus_failed", message, definite=False)
        case Unchanged():
            raise AssertionError(f"no command was sent: {outcome}")
        case _:
            assert_never(outcome)


def answer_refused(call: ApiCall, outcome: Refused) -> None:
    if outcome.no_session:
        error = Problem(code="no_session", message=outcome.reason, definite=True)
        call.json(409, KeyConflict(error=error, committed=None), (error_header("no_session"),))
    elif outcome.no_quorum:
        call.fail(503, "no_quorum", outcome.reason, retry_after_ms=RETRY_AFTER_MS)
    else:
        call.overloaded(f"turned away: {outcome.reason}")


def answer_committed(leases: LeaseCounts, call: ApiCall, key: bytes, outcome: Committed, *, made: bool = False) -> None:
    """`made`: by its condition it made the key, also if what was there before is not known any more."""
    proposal = outcome.proposal
    status = 201 if made or (outcome.mine and made_a_key(outcome)) else 200
    headers = write_headers(proposal, outcome.path, mine=outcome.mine, more=ttl_header(leases, key, proposal))
    if call.wants_json:
        left = leases.remaining_ms(key, proposal)
        call.json(status, record(key, proposal, mine=outcome.mine, path=outcome.path, remaining_ms=left), headers)
    else:
        call.answer(status, headers=headers)


def answer_replacing(leases: LeaseCounts, call: ApiCall, key: bytes, outcome: Outcome) -> None:
    """Of a write that is `returning`: with what was there before."""
    if not isinstance(outcome, Committed):
        answer_write(leases, call, key, outcome)
        return
    proposal, previous = outcome.proposal, outcome.previous
    status = 201 if made_a_key(outcome) else 200
    headers = (OPAQUE, *write_headers(proposal, outcome.path, mine=True), *ttl_header(leases, key, proposal))
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


def answer_creation(leases: LeaseCounts, call: ApiCall, key: bytes, outcome: Outcome) -> None:
    """Of a write that is `if_absent`: a value that is there may end, and is not a name that is taken."""
    if isinstance(outcome, ExpectedValueDoesNotMatch):
        answer_conflict(leases, call, key, outcome, "exists", "the key has a value")
    elif isinstance(outcome, Committed):
        answer_committed(leases, call, key, outcome, made=True)
    else:
        answer_write(leases, call, key, outcome)


def answer_sum(leases: LeaseCounts, call: ApiCall, key: bytes, outcome: Outcome) -> None:
    """Of a write that adds: with what it came to."""
    if not isinstance(outcome, Committed) or call.wants_json:
        answer_write(leases, call, key, outcome)
        return
    proposal = outcome.proposal
    headers = write_headers(proposal, outcome.path, mine=True, more=ttl_header(leases, key, proposal))
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
    leases: LeaseCounts,
    call: ApiCall,
    key: bytes,
    outcome: ExpectedValueDoesNotMatch | VersionMismatch | ImmutableKey | NotAnInteger,
    code: str,
    message: str,
) -> None:
    """The body is what is committed, as it is or in JSON."""
    committed = outcome.committed
    headers = (error_header(code), OPAQUE, *write_headers(committed, outcome.path, mine=False))
    if committed is not None:
        headers = (*headers, *ttl_header(leases, key, committed))
    if call.wants_json:
        there = None
        if committed is not None:
            there = record(key, committed, remaining_ms=leases.remaining_ms(key, committed))
        error = Problem(code=code, message=message, definite=True)
        call.json(409, KeyConflict(error=error, committed=there), headers)
    else:
        call.answer(409, (committed.value if committed is not None else None) or b"", headers=headers)


def write_headers(
    committed: Proposal | None, path: Path, *, mine: bool, more: Sequence[Header] = ()
) -> Sequence[Header]:
    told = (PATHS[path], MINE[mine]) + (about(committed) if committed is not None else ())
    return (*told, *more) if more else told
