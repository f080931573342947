"""What the HTTP API needs of a node: a protocol that `epoxy.node.service.Node` fulfils, and fakes in tests."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from epoxy.model.cluster import ClusterConfig
from epoxy.model.records import ChangelogEntry, Proposal
from epoxy.model.transactions import Txn, TxnOutcome
from epoxy.model.writes import Consistency, Outcome, ReadAnswer, ReadResult, Write
from epoxy.node.members.lifecycle import Lifecycle
from epoxy.node.members.members_admin import MembersAdmin


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

    def datacenter_of(self, replica: int) -> str: ...

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None: ...

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

    def inspect(self, key: bytes, answered: Callable[[Sequence[Any]], None]) -> None:
        """`answered` gets something for each replica that encodes to JSON."""
