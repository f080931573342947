"""What the calls of a client return."""

from typing import Any

from msgspec import Struct, field

from epoxy.model.api import Inspection as Inspection
from epoxy.model.api import NodeReport
from epoxy.model.transactions import Done
from epoxy.model.writes import Path, Source


class Value(bytes):
    """Bytes that know which version they are, so that a compare-and-set can follow a read:

    value = client.get(b"cfg")
    client.put(b"cfg", b"new", if_version=value.version)
    """

    version: int
    mutable: bool
    source: Source
    latency_ms: float
    ttl: float | None
    """Seconds that are left of its time to live; None: it does not expire by itself."""

    @property
    def value(self) -> bytes:
        return bytes(self)


class Reservation(Struct, frozen=True, kw_only=True):
    """`won`: this very call took the name; of all calls in the whole cluster only one wins. `agreed`: the name holds
    the value asked for, written by this call or another. Neither: lost, and `value` is the winner's."""

    key: bytes
    won: bool
    agreed: bool
    value: bytes
    version: int
    mutable: bool
    path: Path
    latency_ms: float


class Written(Struct, frozen=True, kw_only=True):
    """`created`: nothing lived under the key before. `previous`: what the write replaced, if that was asked for with
    `returning`; None: nothing was there. `ttl`: seconds until it ends; None: it does not expire by itself."""

    key: bytes
    version: int
    created: bool
    path: Path
    latency_ms: float
    previous: bytes | None = None
    ttl: float | None = None


class Sum(Struct, frozen=True, kw_only=True):
    """`number`: what an addition came to, at its version. `created`: nothing lived under the key before."""

    key: bytes
    number: int
    version: int
    created: bool
    path: Path
    latency_ms: float


class TxnResult(Struct, frozen=True, kw_only=True):
    """`succeeded`: all compares held, and `then` was done; otherwise the other operations were. `seen`: what the
    compares saw. `results`: of each operation what it read, replaced or came to. All of one moment. Versions: of what
    was seen and read, 0 for a key that was never written."""

    succeeded: bool
    seen: tuple[bytes | None, ...]
    results: tuple[Done, ...]
    reads: tuple[bytes | None, ...]
    latency_ms: float
    seen_versions: tuple[int, ...] = ()
    read_versions: tuple[int, ...] = ()


class Deletion(Struct, frozen=True, kw_only=True):
    """`deleted` False: there was nothing to delete, and nothing was written. `version` is the tombstone's, 0 if the key
    never lived or the node does not say. `previous`: what was deleted, if that was asked for with `returning`."""

    key: bytes
    deleted: bool
    version: int
    path: Path
    latency_ms: float
    previous: bytes | None = None


class Reading(Struct, frozen=True, kw_only=True):
    """A read with its version and source. `value` None: absent. `version` of an absent key is that of its tombstone.
    `transactional`: the key belongs to transactions, and has no versions; `version` is 0."""

    key: bytes
    value: bytes | None
    version: int
    mutable: bool
    source: Source
    latency_ms: float
    transactional: bool = False
    ttl: float | None = None

    @property
    def found(self) -> bool:
        return self.value is not None

    def as_value(self) -> Value | None:
        if self.value is None:
            return None
        value = Value(self.value)
        value.version, value.mutable = self.version, self.mutable
        value.source, value.latency_ms, value.ttl = self.source, self.latency_ms, self.ttl
        return value


class Renewed(Struct, frozen=True, kw_only=True):
    """`renewed` False: there is no value, perhaps because it expired. `version` is the new one, which the next
    condition takes."""

    key: bytes
    renewed: bool
    version: int
    ttl: float | None
    latency_ms: float


class SessionInfo(Struct, frozen=True, kw_only=True):
    """`ttl`: how long it lasts after each renewal; `remaining`: from now, by the node's count. In seconds."""

    id: str
    ttl: float
    remaining: float


class Item(Struct, frozen=True, kw_only=True):
    """One key of a page."""

    key: bytes
    value: bytes | None
    version: int
    mutable: bool


class Page(Struct, frozen=True, kw_only=True):
    """Keys in order, as one node knows them. `after` is where the next page begins; None: this was the last."""

    items: list[Item]
    after: bytes | None


class Change(Struct, frozen=True, kw_only=True):
    """A commit that a node learned of. `value` None: the key was deleted. Writes that were decided together are one
    change, of versions `first_version` to `version`, with the value of the last. `cursor` continues at this node and no
    other: every node learns in an order of its own."""

    cursor: str
    key: bytes
    value: bytes | None
    version: int
    mutable: bool
    first_version: int


class Status(NodeReport, frozen=True, kw_only=True):
    """`document` is all the node sent; newer nodes may send more than is named here."""

    document: dict[str, Any] = field(default_factory=dict)
