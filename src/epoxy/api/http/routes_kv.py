"""Keys over HTTP: reserve, put, add, renew, delete, get, and pages of them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypedDict

from epoxy.api.http.backend import Backend, LeaseCounts
from epoxy.api.http.calls import ApiCall, record
from epoxy.api.http.inputs import BadRequest, Parameters, choice, flag, fragment, key_of, number, session_of
from epoxy.api.http.key_answers import KEYS, answer_creation, answer_read, answer_replacing, answer_sum, answer_write
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
from epoxy.model.access import Access
from epoxy.model.api import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_VERSION,
    Amount,
    Engine,
    Flag,
    KeyConflict,
    KeyPage,
    KeyPart,
    KeyRecord,
    Limit,
    Milliseconds,
    SessionId,
    Version,
    WriteMode,
)
from epoxy.model.integers import LEAST_INTEGER, LONGEST_INTEGER, MOST_INTEGER
from epoxy.model.records import MAX_TTL_MS, MAX_VALUE_BYTES, Proposal
from epoxy.model.writes import Consistency, Outcome, Path, Refused, Source, Write
from epoxy.node.keys.listing import PAGE_BYTES
from epoxy.runtime.admission import Caller

MODES = (b"reserve", b"put")

Answer = Callable[[LeaseCounts, ApiCall, bytes, Outcome], None]

OF_PUT = {
    b"if_version": "a reserved name has one version",
    b"if_absent": "a name is reserved only if it is free",
    b"ttl": "a reserved name is taken for ever",
    b"session": "a reserved name is taken for ever",
    b"keep_ttl": "a reserved name is taken for ever",
    b"returning": "a reserved name replaces nothing",
}
"""Parameters of the other mode, and why they are not of `reserve`."""

READS = {consistency.value.encode(): consistency for consistency in Consistency}

COMMITTED_HEADERS = {
    "Epoxy-Version": (Version, "The committed version; 0 is a value of the first layout, or of transactions."),
    "Epoxy-Mutable": (bool, "Whether it can change."),
    "Epoxy-Ttl": (Milliseconds, "Only of a value that expires: what is left, by this node's count."),
    "Epoxy-Engine": (Engine, "Only of a key that belongs to transactions: it has no versions."),
}
WRITE_HEADERS = {
    "Epoxy-Path": (Path, "How far the write had to travel."),
    "Epoxy-Mine": (bool, "Whether this very request made what is committed."),
}
REPLACED_HEADERS = {"Epoxy-Previous-Version": (Version, "With returning, of the value that was there, if one was.")}
VALUE_OR_RECORD = {OCTETS: bytes, JSON: KeyRecord}
BAD_KEY = refusal("The request is outside the contract.", "bad_key")
UNDECIDED = refusal(
    "No decision in time (the write may still take effect), too few replicas in reach (nothing was done), not ready.",
    *("consensus_failed", "no_quorum"),
)


def written(description: str, *, replaces: bool = True) -> RouteAnswer:
    more = REPLACED_HEADERS if replaces else {}
    return RouteAnswer(description, VALUE_OR_RECORD, COMMITTED_HEADERS | WRITE_HEADERS | more)


def conflict(*codes: str) -> RouteAnswer:
    told = "Not written, because of what is committed, which is the body."
    codes = ("immutable", "version_mismatch", "wrong_engine", *codes)
    return RouteAnswer(told, {OCTETS: bytes, JSON: KeyConflict}, COMMITTED_HEADERS | WRITE_HEADERS, codes)


RETURNING = Parameter("returning", Flag, "Whether to answer what was there before: the body, and in JSON `previous`.")


SESSION = Parameter("session", SessionId, "The value ends with this session.")


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
                    Parameter("if_absent", Flag, "With mode=put: only if the key has no value."),
                    Parameter("ttl", Milliseconds, "With mode=put: the value expires after so many milliseconds."),
                    SESSION,
                    Parameter("keep_ttl", Flag, "With mode=put: the value expires when the one before would have."),
                    RETURNING,
                ),
                body={OCTETS: bytes},
                body_description="The value, up to 1 MiB.",
                answers={
                    200: written("It was there: the same value reserved before, or a newer version of a mutable key."),
                    201: written("This write made the key."),
                    400: BAD_KEY,
                    404: OTHER_PATH,
                    409: conflict("taken", "exists", "no_session"),
                    411: NO_LENGTH,
                    429: overloaded(),
                    503: UNDECIDED,
                },
            ),
            Route(
                method="PATCH",
                path="/v2/kv/{key}",
                handler=self.patch,
                kind="http_patch_key",
                access=Access.WRITE,
                operation="changeKey",
                summary="Add to a number, or renew a value that expires",
                parameters=(
                    KEY,
                    Parameter("add", Amount, "Added to the number; an absent key counts as 0."),
                    Parameter(
                        "ttl",
                        Milliseconds,
                        "Without add: the value stays, and expires so many milliseconds from now; 0: never. With add: "
                        "given only to a key that this makes.",
                    ),
                    SESSION,
                    if_version("Change only this version."),
                ),
                answers={
                    200: written("The sum, or renewed.", replaces=False),
                    201: written("This write made the key: the sum is the amount.", replaces=False),
                    400: BAD_KEY,
                    404: refusal("There is nothing to renew.", "not_found", "no_such_route"),
                    409: conflict("not_an_integer", "no_session"),
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
                parameters=(KEY, if_version("Delete only this version."), RETURNING),
                answers={
                    200: written("Deleted: the version is that of the tombstone."),
                    400: BAD_KEY,
                    404: refusal("There is nothing to delete.", "not_found", "no_such_route"),
                    409: conflict(),
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
                answer_read(self._node.leases, call, key, here)
                return
        self._node.read(key, consistency, partial(answer_read, self._node.leases, call, key))

    def put(self, call: ApiCall) -> None:
        request = call.request
        key = key_of(request.path[len(KEYS) :])
        check_write(call.principal, key)
        given = call.parameters()
        mutable = mode_of(given, request.headers) == b"put"
        if not mutable and (misplaced := [name for name in OF_PUT if name in given]):
            raise BadRequest(
                400, "bad_parameter", f"{misplaced[0].decode()} belongs to mode=put: {OF_PUT[misplaced[0]]}"
            )
        write = Write(
            key=key,
            value=body_of(call),
            mutable=mutable,
            if_version=number(given, b"if_version", low=0, high=MAX_VERSION),
            returning=flag(given, b"returning"),
            **expiry_of(given),
        )
        if write.if_absent and (write.if_version is not None or write.returning or write.keep_expiry):
            raise BadRequest(400, "bad_parameter", "if_absent goes with none of if_version, returning and keep_ttl")
        if call.principal.stored_bytes:
            check_stored(self._node, call.principal, len(key) + len(write.value or b""))
        answered = answer_creation if write.if_absent else answer_replacing if write.returning else answer_write
        self._write(call, write, answered if self._node.ready else self._answer_unready)

    def patch(self, call: ApiCall) -> None:
        key = key_of(call.request.path[len(KEYS) :])
        check_write(call.principal, key)
        given = call.parameters()
        if call.request.body:
            raise BadRequest(400, "bad_request", "the request has a body; what to do is said by parameters")
        if_version = number(given, b"if_version", low=0, high=MAX_VERSION)
        amount = number(given, b"add", low=LEAST_INTEGER, high=MOST_INTEGER)
        if amount is None:
            self._renew(call, key, given, if_version)
            return
        write = Write(key=key, value=None, mutable=True, if_version=if_version, amount=amount, **expiry_of(given))
        if call.principal.stored_bytes:
            check_stored(self._node, call.principal, len(key) + LONGEST_INTEGER)
        self._write(call, write, answer_sum)

    def _renew(self, call: ApiCall, key: bytes, given: Parameters, if_version: int | None) -> None:
        if b"ttl" not in given and b"session" not in given:
            words = "?add=N adds N to the number under the key, ?ttl=MS lets its value expire that much later"
            raise BadRequest(400, "bad_parameter", f"nothing to do: {words}")
        expiry = expiry_of(given, least_ttl=0)
        write = Write(key=key, value=None, mutable=True, touch=True, if_version=if_version, **expiry)
        self._write(call, write, answer_write)

    def _write(self, call: ApiCall, write: Write, answered: Answer) -> None:
        leases, caller = self._node.leases, Caller()
        call.exchange.when_client_leaves(caller.leave)
        if not call.principal.stored_bytes:
            self._node.write(write, partial(answered, leases, call, write.key), caller)
            return

        def charged(outcome: Outcome) -> None:
            self._node.quotas.charge(call.principal, write.key, outcome)
            answered(leases, call, write.key, outcome)

        self._node.write(write, charged, caller)

    def _answer_unready(self, leases: LeaseCounts, call: ApiCall, key: bytes, outcome: Outcome) -> None:
        """Names that are taken are known to a node that takes no writes yet."""
        if isinstance(outcome, Refused):
            not_ready(call, self._node)
        else:
            answer_write(leases, call, key, outcome)

    def delete(self, call: ApiCall) -> None:
        key = key_of(call.request.path[len(KEYS) :])
        check_write(call.principal, key)
        given = call.parameters()
        if_version = number(given, b"if_version", low=0, high=MAX_VERSION)
        returning = flag(given, b"returning")
        write = Write(key=key, value=None, mutable=True, if_version=if_version, returning=returning)
        self._write(call, write, answer_replacing if returning else answer_write)

    def page(self, call: ApiCall) -> None:
        given = call.parameters()
        limit = number(given, b"limit", low=1, high=MAX_LIMIT) or DEFAULT_LIMIT
        prefix = fragment(given, b"prefix")
        check_list(call.principal, prefix)
        rows = self._node.page(prefix, fragment(given, b"after") or None, limit)
        left = self._node.leases.remaining_ms
        keys = [
            record(key, committed, remaining_ms=left(key, committed) if committed.expiry is not None else None)
            for key, committed in rows
            if not committed.is_tombstone
        ]
        call.json(200, KeyPage(keys=keys, next=quoted(rows[-1][0]) if may_go_on(rows, limit) else None))


def expiry_of(given: Parameters, least_ttl: int = 1) -> "ExpiryFields":
    """What a write says about the expiry of its value, as fields of a Write: one thing at most."""
    told = [name.decode() for name in (b"ttl", b"session", b"keep_ttl") if name in given]
    if len(told) > 1:
        raise BadRequest(400, "bad_parameter", f"{' and '.join(told)}: a value has one expiry; give one of them")
    return ExpiryFields(
        if_absent=flag(given, b"if_absent"),
        ttl_ms=number(given, b"ttl", low=least_ttl, high=MAX_TTL_MS) or 0,
        session=session_of(given[b"session"]) if b"session" in given else b"",
        keep_expiry=flag(given, b"keep_ttl"),
    )


class ExpiryFields(TypedDict):
    if_absent: bool
    ttl_ms: int
    session: bytes
    keep_expiry: bool


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
