"""What can be asked of a node, and the results its answers become, without IO."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes, urlencode

import msgspec
from msgspec import UNSET, Struct

from epoxy.client.http1 import HttpResponse
from epoxy.client.responses import (
    JSON,
    fail,
    found_at,
    read_json,
    replaced,
    says_absent,
    travelled,
    ttl_of,
    version_of,
)
from epoxy.client.results import (
    Change,
    Deletion,
    Item,
    Page,
    Reading,
    Reservation,
    Status,
    Sum,
    TxnResult,
    Value,
    Written,
)
from epoxy.codec import txn_json
from epoxy.model.api import (
    MAX_LIMIT,
    MAX_VERSION,
    ChangesGone,
    Inspection,
    KeyPage,
    KeyRecord,
    Members,
    MembersOrder,
    MovedMember,
    Newcomer,
    NodeProbe,
    Ordered,
)
from epoxy.model.errors import (
    CodecError,
    CursorGone,
    InvalidRequest,
    UnexpectedAnswer,
)
from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER, integer_of
from epoxy.model.records import MAX_KEY_BYTES, MAX_TTL_MS, MAX_VALUE_BYTES
from epoxy.model.transactions import Compare, Operation, Txn, flaw_of
from epoxy.model.writes import Consistency

T = TypeVar("T")


class Call(Struct, Generic[T], frozen=True, kw_only=True):
    """One request and how to read its answer. `writes`: it must not be sent twice, since it may take effect twice.
    `repeatable`: it changes something, once, however often it is sent; so a failure says whether it may have."""

    method: str
    target: str
    read: Callable[[HttpResponse], T]
    body: bytes | None = None
    writes: bool = False
    repeatable: bool = False
    accept: str = "application/octet-stream"
    content_type: str = "application/octet-stream"
    """Of the body, if there is one."""
    timeout: float | None = None
    """In seconds, for all of it. None: that of the client."""
    authorization: str = ""
    """The value of the header, instead of the client's token."""
    headers: tuple[tuple[str, str], ...] = ()
    """More of them, checked by `checked_headers`."""


# Requests: the methods of the clients, with their `timeout`.


def reserve(key: bytes | str, value: bytes | str, *, timeout: float | None = None) -> Call[Reservation]:
    """Take a name for ever, if it is free. Having lost is a result, not an error."""
    name, wanted = checked_key(key), checked_value(value)

    def read(answer: HttpResponse) -> Reservation:
        taken = answer.status == 409 and answer.headers.get("epoxy-error") == "taken"
        if answer.status not in (200, 201) and not taken:
            fail(answer, writes=True)
        return Reservation(
            key=name,
            won=answer.headers.get("epoxy-mine") == "true",
            agreed=not taken,
            value=answer.body if taken else wanted,
            version=version_of(answer),
            mutable=answer.headers.get("epoxy-mutable") == "true",
            path=travelled(answer),
            latency_ms=answer.latency_ms,
        )

    return Call(method="PUT", target=f"{kv(name)}?mode=reserve", body=wanted, writes=True, read=read, timeout=timeout)


def put(
    key: bytes | str,
    value: bytes | str,
    *,
    if_version: int | None = None,
    if_absent: bool = False,
    ttl: float | None = None,
    keep_ttl: bool = False,
    session: str | None = None,
    returning: bool = False,
    timeout: float | None = None,
) -> Call[Written]:
    """Write the next version. It ends after `ttl` seconds, or with a session, or, with `keep_ttl`, when the one before
    would have. `if_absent`: raises KeyExists if the key has a value. `returning`: the result has what it replaced.
    Raises VersionMismatch, NoSession, or ImmutableKey over a reserved name."""
    name, wanted = checked_key(key), checked_value(value)

    def read(answer: HttpResponse) -> Written:
        if answer.status not in (200, 201):
            fail(answer, writes=True)
        return Written(
            key=name,
            version=version_of(answer),
            created=answer.status == 201,
            path=travelled(answer),
            latency_ms=answer.latency_ms,
            previous=replaced(answer),
            ttl=ttl_of(answer),
        )

    flags = {"if_absent": if_absent, "keep_ttl": keep_ttl, "returning": returning}
    asked = {"mode": "put"} | condition(if_version) | {name: "true" for name, given in flags.items() if given}
    asked |= expiry(ttl, session)
    target = f"{kv(name)}?{urlencode(asked)}"
    return Call(method="PUT", target=target, body=wanted, writes=True, read=read, timeout=timeout)


def add(
    key: bytes | str,
    amount: int = 1,
    *,
    if_version: int | None = None,
    ttl: float | None = None,
    session: str | None = None,
    timeout: float | None = None,
) -> Call[Sum]:
    """Add to a decimal number of 64 bits; an absent key counts as 0. `ttl`, `session`: given only to a key that this
    makes; otherwise its expiry stays as it is. Raises NotAnInteger if the value is none, or the
    sum would be none; VersionMismatch; ImmutableKey over a reserved name."""
    name, asked = checked_key(key), {"add": str(checked_amount(amount))} | condition(if_version)
    asked |= expiry(ttl, session)

    def read(answer: HttpResponse) -> Sum:
        if answer.status not in (200, 201):
            fail(answer, writes=True)
        number = integer_of(answer.body)
        if number is None:
            raise UnexpectedAnswer("answered a sum that is no number, which no Epoxy node does")
        return Sum(
            key=name,
            number=number,
            version=version_of(answer),
            created=answer.status == 201,
            path=travelled(answer),
            latency_ms=answer.latency_ms,
        )

    return Call(method="PATCH", target=f"{kv(name)}?{urlencode(asked)}", writes=True, read=read, timeout=timeout)


def delete(
    key: bytes | str, *, if_version: int | None = None, returning: bool = False, timeout: float | None = None
) -> Call[Deletion]:
    """Delete a key that was put. `returning`: the result has what was deleted."""
    name = checked_key(key)

    def read(answer: HttpResponse) -> Deletion:
        if answer.status not in (200, 204) and not says_absent(answer):
            fail(answer, writes=True)
        return Deletion(
            key=name,
            deleted=answer.status != 404,
            version=version_of(answer),
            path=travelled(answer),
            latency_ms=answer.latency_ms,
            previous=replaced(answer),
        )

    asked = urlencode(condition(if_version) | ({"returning": "true"} if returning else {}))
    target = f"{kv(name)}?{asked}" if asked else kv(name)
    return Call(method="DELETE", target=target, writes=True, read=read, timeout=timeout)


def get(
    key: bytes | str, *, read: str | Consistency = Consistency.OPTIMISTIC, timeout: float | None = None
) -> Call[Value | None]:
    """The value, or None. Bytes that carry their version: see `read` for the whole answer."""
    return reading(key, read, timeout, Reading.as_value)


def read(
    key: bytes | str, *, read: str | Consistency = Consistency.OPTIMISTIC, timeout: float | None = None
) -> Call[Reading]:
    return reading(key, read, timeout, lambda found: found)


def reading(
    key: bytes | str, consistency: str | Consistency, timeout: float | None, then: Callable[[Reading], T]
) -> Call[T]:
    name = checked_key(key)

    def read(answer: HttpResponse) -> T:
        if answer.status != 200 and not says_absent(answer):
            fail(answer, writes=False)
        found = Reading(
            key=name,
            value=answer.body if answer.status == 200 else None,
            version=version_of(answer),
            mutable=answer.headers.get("epoxy-mutable") == "true",
            source=found_at(answer),
            latency_ms=answer.latency_ms,
            transactional=answer.headers.get("epoxy-engine") == "transactions",
            ttl=ttl_of(answer),
        )
        return then(found)

    target = f"{kv(name)}?read={checked_consistency(consistency).value}"
    return Call(method="GET", target=target, read=read, timeout=timeout)


def txn(
    *,
    compares: Iterable[Compare] = (),
    then: Iterable[Operation] = (),
    otherwise: Iterable[Operation] = (),
    reads: Iterable[bytes | str] = (),
    timeout: float | None = None,
) -> Call[TxnResult]:
    """All of it at one moment: if every compare holds `then` is done, else `otherwise`. Compares that do not hold are a
    result, not an error. `reads` are looked up before anything is done."""
    asked = checked_txn(tuple(compares), tuple(then), tuple(otherwise), tuple(map(checked_key, reads)))

    def read(answer: HttpResponse) -> TxnResult:
        if answer.status != 200:
            fail(answer, writes=not asked.is_read_only)
        try:
            executed = txn_json.decode_executed(answer.body)
        except CodecError as error:
            raise UnexpectedAnswer(f"answered what no Epoxy node says ({error})") from error
        return TxnResult(
            succeeded=executed.succeeded,
            seen=executed.seen,
            results=executed.done,
            reads=executed.found,
            latency_ms=answer.latency_ms,
            seen_versions=tuple([held.at for held in executed.compared]),
            read_versions=tuple([held.at for held in executed.reads]),
        )

    return post_json("/v2/txn", txn_json.encode_txn(asked), read, writes=not asked.is_read_only, timeout=timeout)


def checked_txn(
    compares: tuple[Compare, ...],
    then: tuple[Operation, ...],
    otherwise: tuple[Operation, ...],
    reads: tuple[bytes, ...],
) -> Txn:
    if not (compares or then or otherwise or reads):
        raise InvalidRequest("a transaction names at least one key")
    for kinds, given in ((Compare, compares), (Operation, (*then, *otherwise))):
        strangers = [type(each).__name__ for each in given if not isinstance(each, kinds)]
        if strangers:
            raise InvalidRequest(f"a transaction has Compares, and Put, Add, Delete and Get, not {strangers[0]}")
    asked = Txn(compares=compares, then=then, otherwise=otherwise, reads=reads)
    flaw = flaw_of(asked)
    if flaw is not None:
        raise InvalidRequest(flaw)
    return asked


def status(*, timeout: float | None = None) -> Call[Status]:
    def read(answer: HttpResponse) -> Status:
        told = read_json(Status, answer)
        return msgspec.structs.replace(told, document=read_json(dict[str, Any], answer))

    return get_json("/v2/status", read, timeout)


def page(
    prefix: bytes | str = b"",
    *,
    after: bytes | str | None = None,
    limit: int | None = None,
    timeout: float | None = None,
) -> Call[Page]:
    """Keys in order, as one node knows them: no promise that it has heard of all."""

    def read(answer: HttpResponse) -> Page:
        told = read_json(KeyPage, answer)
        items = [
            Item(key=unquote_to_bytes(row.key), value=row.value_base64, version=row.version, mutable=row.mutable)
            for row in told.keys
        ]
        return Page(items=items, after=unquote_to_bytes(told.next) if told.next is not None else None)

    asked: dict[str, bytes | int] = {"prefix": as_bytes(prefix, "prefix")}
    if after is not None:
        asked["after"] = checked_key(after)
    if limit is not None:
        asked["limit"] = checked_limit(limit)
    return get_json(f"/v2/kv?{urlencode(asked)}", read, timeout)


def inspect(key: bytes | str, *, timeout: float | None = None) -> Call[Inspection]:
    """What every replica holds for the key."""
    name = quote_from_bytes(checked_key(key), safe="")
    return get_json(f"/v2/inspect/{name}", partial(read_json, Inspection), timeout)


def members(*, progress: bool = False, timeout: float | None = None) -> Call[Members]:
    """Who belongs to the cluster. `progress`: every member is asked how far it is."""
    return get_json(f"/v2/members?progress={str(progress).lower()}", partial(read_json, Members), timeout)


def change_members(
    *,
    add: Sequence[Newcomer] = (),
    remove: Sequence[int] = (),
    move: Sequence[MovedMember] = (),
    force: bool = False,
    timeout: float | None = None,
) -> Call[Ordered]:
    """Add, remove and move members in one change. Returns when the order is committed; `members` tells when it is done.
    `force`: even if too few of the members that stay can be reached now."""
    if not add and not remove and not move:
        raise InvalidRequest("nothing to add, to remove or to move")
    body = msgspec.json.encode(MembersOrder(add=list(add), remove=list(remove), move=list(move), force=force))
    # An order that is sent twice is refused the second time; still it is not sent again by itself.
    return post_json("/v2/members", body, partial(read_json, Ordered, status=202, writes=True), timeout=timeout)


def probe_node(replica: int, url: str, *, timeout: float | None = None) -> Call[NodeProbe]:
    """What a node that is to be added says of itself, as a member hears it. `url`: where the members reach it."""
    target = f"/v2/members/probe?id={replica}&url={quote(url, safe='')}"
    return get_json(target, partial(read_json, NodeProbe), timeout)


def get_json(target: str, read: Callable[[HttpResponse], T], timeout: float | None = None) -> Call[T]:
    return Call(method="GET", target=target, accept=JSON, read=read, timeout=timeout)


def post_json(
    target: str, body: bytes, read: Callable[[HttpResponse], T], *, writes: bool = True, timeout: float | None = None
) -> Call[T]:
    return Call(
        method="POST",
        target=target,
        body=body,
        content_type=JSON,
        accept=JSON,
        read=read,
        writes=writes,
        timeout=timeout,
    )


def gone(data: str) -> CursorGone:
    """The last event of a stream whose reader was too slow."""
    try:
        return CursorGone(msgspec.json.decode(data, type=ChangesGone).message)
    except msgspec.MsgspecError:
        return CursorGone("the changes that come next are no longer kept")


def change(cursor: str, data: str) -> Change:
    """One event of the stream of changes."""
    try:
        row = msgspec.json.decode(data, type=KeyRecord)
    except msgspec.MsgspecError as error:
        raise UnexpectedAnswer(f"sent a change that no Epoxy node sends ({error})") from error
    return Change(
        cursor=cursor,
        key=unquote_to_bytes(row.key),
        value=row.value_base64,
        version=row.version,
        mutable=row.mutable,
        first_version=row.version if row.first_version is UNSET else row.first_version,
    )


# Input, checked before anything is sent.


def checked_key(key: bytes | str) -> bytes:
    plain = as_bytes(key, "key")
    if not 1 <= len(plain) <= MAX_KEY_BYTES:
        raise InvalidRequest(f"a key has 1 to {MAX_KEY_BYTES:,} bytes, not {len(plain):,}")
    return plain


def checked_value(value: bytes | str) -> bytes:
    plain = as_bytes(value, "value")
    if len(plain) > MAX_VALUE_BYTES:
        raise InvalidRequest(f"a value has at most {MAX_VALUE_BYTES:,} bytes, not {len(plain):,}")
    return plain


def as_bytes(given: object, what: str) -> bytes:
    """Text is UTF-8. Numbers are refused: bytes(3) would silently be three zeros."""
    match given:
        case str():
            return given.encode()
        case bytes() | bytearray() | memoryview():
            return bytes(given)
        case _:
            raise InvalidRequest(f"a {what} is bytes or str, not {type(given).__name__}")


def condition(if_version: object) -> dict[str, str]:
    if if_version is None:
        return {}
    if not isinstance(if_version, int) or not 0 <= if_version <= MAX_VERSION:
        raise InvalidRequest(f"a version is between 0 (never written) and {MAX_VERSION}, not {if_version!r}")
    return {"if_version": str(if_version)}


def expiry(ttl: float | None, session: str | None) -> dict[str, str]:
    told = {} if ttl is None else {"ttl": str(checked_ttl(ttl))}
    return told if session is None else told | {"session": session}


def checked_ttl(ttl: object, *, least_ms: int = 1) -> int:
    """In milliseconds."""
    if isinstance(ttl, int | float) and least_ms <= ttl * 1000 <= MAX_TTL_MS:
        return max(least_ms, round(ttl * 1000))
    raise InvalidRequest(f"a time to live is {least_ms / 1000:g} to {MAX_TTL_MS // 1000:,} seconds, not {ttl!r}")


def checked_amount(amount: object) -> int:
    if not isinstance(amount, int) or not LEAST_INTEGER <= amount <= MOST_INTEGER:
        raise InvalidRequest(f"an amount is a number of 64 bits with its sign, not {amount!r}")
    return int(amount)


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidRequest(f"a page has 1 to {MAX_LIMIT:,} keys, not {limit:,}")
    return limit


def checked_consistency(consistency: str | Consistency) -> Consistency:
    try:
        return Consistency(consistency)
    except ValueError:
        known = ", ".join(kind.value for kind in Consistency)
        raise InvalidRequest(f"unknown consistency {consistency!r}; there are: {known}") from None


def kv(key: bytes) -> str:
    return f"/v2/kv/{quote_from_bytes(key, safe='')}"
