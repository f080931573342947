"""What the parts of this room need of each other and of the node, as Protocols."""

from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from epoxy.datacenter.messages import Question
from epoxy.model.messages import Reply, Request
from epoxy.model.records import Proposal
from epoxy.model.transactions import Txn, TxnOutcome
from epoxy.model.writes import Consistency, Outcome, ReadAnswer, Write
from epoxy.store.shared.database import SessionRow

T = TypeVar("T")


class NeverSent(Struct, frozen=True):
    """The question never left this node. Definite: nothing was done. `unreachable`: for want of a connection, so that
    another owner, or the same one a moment later, may be asked."""

    reason: str
    unreachable: bool = False


class AnswerLost(Struct, frozen=True):
    """The question left this node and no answer came. Indefinite: it may have been done, or may still be."""

    reason: str


Answered = Callable[[Any], None]
"""Gets the answer, NeverSent or AnswerLost, once."""

Serve = Callable[[int, T, Answered], None]
"""Gets the session that asks, what it asks, and where the answer goes to."""


class Messenger(Protocol):
    """The way to the other sessions of the datacenter: `links.NodeLinks`."""

    @property
    def sessions(self) -> Collection[int]:
        """The others."""

    def ask(self, session: int, question: Question, answered: Answered) -> None: ...

    def tell(self, session: int, question: Question) -> None:
        """Without an answer. A loss is silent."""

    def serve(self, kind: type[T], handler: Serve[T]) -> None:
        """Hand all questions of this kind to the handler, in place of the one before it."""


class ShardOwners(Protocol):
    """Of `store.postgres.ownership.Ownership`."""

    @property
    def session(self) -> int:
        """This one."""

    @property
    def owned(self) -> AbstractSet[int]:
        """Shards that are served here now."""

    def owner_of(self, shard: int) -> SessionRow | None:
        """By the table, which may be old."""

    def look(self) -> None:
        """Ask for the table now: it is not as this node believes."""


class ServedKeys(Protocol):
    """The node here, whatever the table says."""

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None: ...

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None: ...

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None: ...

    def ordered_write(self, write: Write, mark: Proposal, answered: Callable[[Outcome], None]) -> None: ...

    def ordered_read(
        self, key: bytes, mark: Proposal, consistency: Consistency, answered: Callable[[ReadAnswer], None]
    ) -> None: ...

    def handle(self, requests: Sequence[Request], answered: Callable[[Sequence[Reply]], None]) -> None:
        """Requests of peers about keys that are owned here, or with a configuration; replies when they are durable."""

    def session_over(self, session: bytes) -> None:
        """Keys that are attached to this client's session end."""

    def hold(self, rested: Callable[[], None]) -> None:
        """Run no rule, and call when what they have written is durable: `Replica.hold`."""

    def release(self) -> None:
        """Run rules again: `Replica.release`."""
