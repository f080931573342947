"""What the HTTP API needs of a node: a protocol that `epoxy.node.service.Node` fulfils, and fakes in tests."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from epoxy.model.access import AccessTable
from epoxy.model.api import ReplicaView, SessionReport
from epoxy.model.cluster import ClusterConfig
from epoxy.model.errors import InvalidRequest
from epoxy.model.records import ChangelogEntry, Proposal
from epoxy.model.transactions import Txn, TxnOutcome
from epoxy.model.versions import PeerVersions
from epoxy.model.writes import ConsensusFailed, Consistency, Outcome, ReadAnswer, ReadResult, Refused, Write
from epoxy.node.access.audit import AuditLog
from epoxy.node.access.guesses import Guesses
from epoxy.node.members.lifecycle import Lifecycle
from epoxy.node.members.members_admin import MembersAdmin
from epoxy.protocol.access.principal import Principal
from epoxy.runtime.admission import Caller
from epoxy.store.embedded.syncs import SyncTimes


class AccessInForce(Protocol):
    """`epoxy.node.access.control.AccessControl`."""

    is_open: bool
    generation: int
    table: AccessTable
    version: int
    watchers: list[Callable[[], None]]

    def of_token(self, token: bytes) -> Principal | None: ...

    def of_certificate(self, names: Iterable[str]) -> Principal | None: ...

    def change(
        self,
        edit: Callable[[AccessTable], AccessTable],
        answered: Callable[[AccessTable | InvalidRequest | Refused | ConsensusFailed], None],
    ) -> None: ...


class QuotasInForce(Protocol):
    """`epoxy.node.access.quotas.Quotas`."""

    def wait_s(self, principal: Principal) -> float: ...

    def refusal(self, principal: Principal, more_bytes: int) -> str | None: ...

    def charge(self, principal: Principal, key: bytes, outcome: Outcome) -> None: ...

    def charging(
        self, principal: Principal, txn: Txn, answered: Callable[[TxnOutcome], None]
    ) -> Callable[[TxnOutcome], None]: ...


class LeaseCounts(Protocol):
    """`epoxy.node.keys.leases.Leases`."""

    def remaining_ms(self, key: bytes, committed: Proposal) -> int | None: ...


class SessionsInForce(Protocol):
    """`epoxy.node.keys.sessions.Sessions`."""

    def begin(self, ttl_ms: int, answered: Callable[[Outcome], None]) -> bytes: ...

    def renew(self, session: bytes, answered: Callable[[Outcome], None]) -> None: ...

    def end(self, session: bytes, answered: Callable[[Outcome], None]) -> None: ...


class QuorumInReach(Protocol):
    """`epoxy.node.quorum_watch.QuorumWatch`."""

    def look(self) -> bool:
        """Whether no quorum is within reach."""


class MembershipBackend(Protocol):
    @property
    def config(self) -> ClusterConfig: ...


class Backend(Protocol):
    @property
    def ready(self) -> bool: ...

    @property
    def replica(self) -> MembershipBackend: ...

    @property
    def lifecycle(self) -> Lifecycle:
        """Whether it serves clients, and why not."""

    @property
    def members_admin(self) -> MembersAdmin | None:
        """None: its members never change."""

    @property
    def txn_waits(self) -> str:
        """Why no transactions are ordered here now; empty if they are."""

    @property
    def quorum(self) -> QuorumInReach: ...

    @property
    def session(self) -> int:
        """Its own; 0: it shares no database with other nodes."""

    @property
    def sessions_of_datacenter(self) -> Callable[[], Sequence[SessionReport]]: ...

    @property
    def syncs(self) -> SyncTimes | None:
        """Of its disk; None: it has none."""

    @property
    def access(self) -> AccessInForce: ...

    @property
    def quotas(self) -> QuotasInForce: ...

    @property
    def leases(self) -> LeaseCounts: ...

    @property
    def sessions(self) -> SessionsInForce: ...

    @property
    def audit(self) -> AuditLog: ...

    @property
    def guesses(self) -> Guesses: ...

    def datacenter_of(self, replica: int) -> str: ...

    @property
    def versions(self) -> PeerVersions: ...

    def write(self, write: Write, answered: Callable[[Outcome], None], caller: Caller | None = None) -> None: ...

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None: ...

    def peek(self, key: bytes) -> ReadResult | None:
        """What this replica knows, at once."""

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None: ...

    def page(self, prefix: bytes, after: bytes | None, limit: int) -> Sequence[tuple[bytes, Proposal]]: ...

    def changes(self, after: bytes | None, limit: int) -> Sequence[tuple[bytes, ChangelogEntry]]: ...

    def changes_gone(self) -> bytes:
        """The cursor of the newest change that is no longer kept: a reader behind it has missed changes."""

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """`listener` is called when `changes` may have more, once that is durable. Returns a function that ends it."""

    def status(self) -> object:
        """Something that encodes to JSON."""

    def inspect(self, key: bytes, answered: Callable[[Sequence[ReplicaView]], None]) -> None:
        """`answered` gets what each replica holds."""

    def newest_changes(self, before: bytes | None, limit: int) -> Sequence[tuple[bytes, ChangelogEntry]]:
        """As `changes`, the newest first, and only those before this cursor."""
