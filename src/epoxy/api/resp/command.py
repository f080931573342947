"""A RESP command: how it is declared, and what it may use."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from epoxy.model.access import Access
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import InvalidRequest
from epoxy.model.integers import integer_of
from epoxy.model.records import MAX_KEY_BYTES, MAX_VALUE_BYTES, Proposal
from epoxy.model.transactions import Txn, TxnOutcome
from epoxy.model.writes import Consistency, Outcome, ReadAnswer, ReadResult, Write
from epoxy.node.access.audit import AuditLog
from epoxy.node.access.control import AccessControl
from epoxy.node.access.guesses import Guesses
from epoxy.node.access.quotas import Quotas
from epoxy.protocol.access.principal import Principal
from epoxy.runtime.admission import Caller
from epoxy.scripting.scripts import LuaScripts
from epoxy.transport.http.response_cache import ResponseCache

PUBLIC, WRITE = Access.PUBLIC, Access.WRITE
"""Looked up once: a member of an enumeration is slow to find."""

INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}")

Arguments = list[bytes]
Answer = Callable[[bytes], None]


class SessionsOfNode(Protocol):
    """`epoxy.node.keys.sessions.Sessions`."""

    def begin(self, ttl_ms: int, answered: Callable[[Outcome], None]) -> bytes: ...

    def renew(self, session: bytes, answered: Callable[[Outcome], None]) -> None: ...

    def end(self, session: bytes, answered: Callable[[Outcome], None]) -> None: ...


class TimesLeft(Protocol):
    """What RESP commands need of leases."""

    def remaining_ms(self, key: bytes, committed: Proposal) -> int | None: ...


class RespNode(Protocol):
    """What RESP commands need of a node."""

    def write(self, write: Write, answered: Callable[[Outcome], None], caller: Caller | None = None) -> None: ...

    def read(
        self,
        key: bytes,
        consistency: Consistency,
        answered: Callable[[ReadAnswer], None],
        caller: Caller | None = None,
    ) -> None: ...

    def peek(self, key: bytes) -> ReadResult | None: ...

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None], caller: Caller | None = None) -> None: ...

    def on_overwrite(self, listener: Callable[[bytes], None]) -> None: ...

    def stays(self, key: bytes, here: ReadResult) -> bool: ...

    def page(self, prefix: bytes, after: bytes | None, limit: int) -> list[tuple[bytes, Proposal]]: ...

    def count(self, after: bytes | None, rows: int, prefix: bytes = b"") -> tuple[int, bytes | None]:
        """Keys with a value among the next rows of a prefix after a key, and where to go on; None: there are no
        more."""

    def is_full(self, *, writes: bool) -> bool:
        """Whether another write, or another read that asks other regions, would be refused now."""

    def status(self) -> Struct: ...

    @property
    def sessions(self) -> SessionsOfNode: ...

    @property
    def access(self) -> AccessControl: ...

    @property
    def quotas(self) -> Quotas: ...

    @property
    def audit(self) -> AuditLog: ...

    @property
    def guesses(self) -> Guesses: ...

    @property
    def leases(self) -> TimesLeft: ...

    @property
    def scripts(self) -> LuaScripts: ...


Credential = Callable[[], Principal | None]
"""Looks up the grant of what a client has shown. Asked again whenever the grants in force have changed; None: there is
none, any more."""


class OverQuota(Exception):
    """A write that its client has no room for. Nothing was done."""


class RespSession:
    """One client, as its commands see it."""

    def __init__(self, node: RespNode, number: int) -> None:
        self.node = node
        self.id = number
        self.name = b""
        self.address = self.local_address = ""
        """Of the client, and of the port it connected to."""
        self.certificate_names: tuple[str, ...] = ()
        """SANs of the certificate that the client has shown; none without TLS."""
        self.protocol = 2
        self.consistent = False
        self.principal: Principal | None = None
        """None: it has shown no token that is in force."""
        self.multi: list[Any] | None = None
        """Commands queued since MULTI (`transactions.Queued`); None outside of one."""
        self.multi_broken = False
        self.multi_bytes = self.multi_operations = 0
        self.watched: dict[bytes, ReadResult] = {}
        """Keys as WATCH found them. EXEC compares with that, so reads of this client show the same."""
        self.executing = False
        self.caller = Caller()
        """With the time limit of Redis clients."""
        self.reserve_prefixes: tuple[bytes, ...] = ()
        """Of the names that NX takes for ever."""

    def leave_multi(self) -> None:
        self.multi, self.multi_broken = None, False
        self.watched = {}

    @property
    def consistency(self) -> Consistency:
        return Consistency.LINEARIZABLE if self.consistent else Consistency.OPTIMISTIC

    @property
    def cache(self) -> ResponseCache:
        """Cached replies to GET, by the key as it is written in a command."""
        raise NotImplementedError

    def promise(self) -> Answer:
        """For a command whose reply comes later: reserve its place in the queue of replies; returns how to fill it."""
        raise NotImplementedError

    def identify(self, credential: Credential) -> bool:
        """Take the principal of what the client has shown. False: it has none, and the session stays what it was."""
        raise NotImplementedError

    def forget(self) -> None:
        """Back to what the connection itself shows: its certificate, if any."""
        raise NotImplementedError

    def answer_later(self, reply: bytes, delay_s: float) -> None:
        """Send this reply after a delay, and begin no other command of this connection before."""
        raise NotImplementedError

    def soon(self, step: Callable[[], None]) -> None:
        """Call `step` after other connections had a turn, unless the client has disconnected."""
        raise NotImplementedError


Handler = Callable[[RespSession, Arguments], bytes | None]
"""Returns the reply, or None after `promise`. Raises InvalidRequest with what the client did wrong."""


class CommandSpec(Struct, frozen=True, kw_only=True):
    """`arity` counts the name; negative: at least so many. `first_key` 0: it names no keys; `last_key` counts from the
    end if negative, and every `key_step`-th argument between is a key, as in Redis. `alone`: it starts when every
    command before it is answered, because it reads more than the keys it names, or changes how replies are written.
    `access`: what it demands of its client; for the keys that it names, too. `ends_multi`: it is run, not queued,
    inside a MULTI. `counted`: the argument before the first key says how many there are."""

    name: str
    run: Handler
    arity: int
    summary: str
    group: str
    access: Access
    first_key: int = 0
    last_key: int = 0
    key_step: int = 1
    alone: bool = False
    ends_multi: bool = False
    counted: bool = False

    @property
    def writes(self) -> bool:
        return self.access is WRITE

    def keys(self, arguments: Arguments) -> Arguments:
        """None where a command is too short to say how many there are: its arity is refused when it runs."""
        first, last = self.first_key, self.last_key
        if self.counted:
            if len(arguments) < first:
                return []
            return arguments[first : first + key_count(arguments[first - 1])]
        return arguments[first : last + 1] if last > 0 else arguments[first :: self.key_step]

    def accepts(self, count: int) -> bool:
        return count == self.arity or count >= -self.arity > 0


def key_count(text: bytes) -> int:
    """0 where it is no count: such a command fails before it does anything."""
    return max(0, integer_of(text) or 0)


Table = dict[bytes, CommandSpec]


def table_of(commands: Sequence[CommandSpec]) -> Table:
    """By name in upper and in lower case, which are looked up directly."""
    upper = {command.name.upper().encode(): command for command in commands}
    return upper | {command.name.encode(): command for command in commands}


def checked_key(key: bytes) -> bytes:
    if not 0 < len(key) <= MAX_KEY_BYTES:
        raise InvalidRequest(f"a key has 1 to {MAX_KEY_BYTES} bytes, this one {len(key)}")
    if key >= FIRST_SYSTEM_KEY:
        raise InvalidRequest("keys that begin with the byte ff are reserved for the cluster")
    return key


def checked_value(value: bytes) -> bytes:
    if len(value) > MAX_VALUE_BYTES:
        raise InvalidRequest(f"a value has at most {MAX_VALUE_BYTES} bytes, this one {len(value)}")
    return value


def checked_integer(text: bytes) -> int:
    """As Redis writes one: a signed 64-bit integer without spaces, plus sign or leading zeros."""
    if INTEGER.fullmatch(text) and -(1 << 63) <= (number := int(text)) < 1 << 63:
        return number
    raise InvalidRequest("value is not an integer or out of range")


def shown(key: bytes) -> str:
    """A key inside an error message: printable and shortened."""
    return repr(key[:64])[1:] + ("..." if len(key) > 64 else "")
