"""Sessions of a node whose reads and writes are answered by hand."""

from collections.abc import Callable

from epoxy.model.cluster import first_epoch
from epoxy.model.records import Expiry, Proposal, ProposalId
from epoxy.model.sessions import session_key
from epoxy.model.writes import (
    Committed,
    Consistency,
    NothingToDelete,
    Outcome,
    Path,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Refused,
    Source,
    Write,
)
from epoxy.node.keys.replica import Replica
from epoxy.node.keys.sessions import NO_SESSION, Sessions
from epoxy.runtime.admission import Caller
from epoxy.store.memory import MemoryStore
from tests.protocol.keys.harness import FixedDice

SESSION, TTL = bytes(range(16)), 30_000


def lasting() -> Proposal:
    expiry = Expiry(ttl_ms=TTL, since=1)
    return Proposal(value=b"", version=1, mutable=True, proposal_id=ProposalId(1, 1), expiry=expiry)


class Bench:
    """`held`: what an optimistic read finds, and what a linearizable one does."""

    def __init__(self, here: Proposal | None, everywhere: Proposal | ReadFailed | None) -> None:
        self.here, self.everywhere = here, everywhere
        self.writes: list[Write] = []
        self.asked: list[Consistency] = []
        replica = Replica(1, MemoryStore(), first_epoch((1, 2, 3)), print)
        self.sessions = Sessions(replica, FixedDice(), self.write, self.read)
        self.told: list[Outcome] = []

    def write(self, write: Write, answered: Callable[[Outcome], None], caller: Caller | None = None) -> None:  # noqa: ARG002
        self.writes.append(write)
        answered(Committed(proposal=lasting(), mine=True, path=Path.FAST))

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        assert key == session_key(SESSION)
        self.asked.append(consistency)
        is_near = consistency is not Consistency.LINEARIZABLE
        found = self.here if is_near else self.everywhere
        source = Source.LOCAL if is_near else Source.QUORUM
        answered(found if isinstance(found, ReadFailed) else ReadResult(committed=found, source=source))


def test_each_session_has_an_id_of_its_own_and_is_made_once() -> None:
    bench = Bench(None, None)
    one, two = (bench.sessions.begin(TTL, bench.told.append) for _ in range(2))

    assert one != two
    assert [write.key for write in bench.writes] == [session_key(one), session_key(two)]
    assert {write.if_version for write in bench.writes} == {0}
    assert {write.ttl_ms for write in bench.writes} == {TTL}


def test_a_session_is_renewed_for_as_long_as_it_was_made_for() -> None:
    bench = Bench(lasting(), None)
    bench.sessions.renew(SESSION, bench.told.append)

    (write,) = bench.writes
    assert (write.touch, write.ttl_ms, write.if_version) == (True, TTL, None)


def test_a_session_that_is_not_known_here_is_asked_for_before_it_is_said_to_be_over() -> None:
    known = Bench(None, lasting())
    known.sessions.renew(SESSION, known.told.append)
    over = Bench(None, None)
    over.sessions.renew(SESSION, over.told.append)

    assert len(known.writes) == 1
    assert over.writes == []
    assert isinstance(over.told[0], NothingToDelete)
    assert over.asked[-1] is Consistency.LINEARIZABLE


def attached() -> Write:
    return Write(key=b"k", value=b"v", mutable=True, session=SESSION)


def test_a_key_is_attached_to_a_session_that_lasts() -> None:
    bench = Bench(lasting(), None)
    bench.sessions.attach(attached(), bench.told.append)

    assert bench.writes == [attached()]
    assert isinstance(bench.told[0], Committed)


def test_a_key_is_not_attached_to_a_session_that_is_over_or_cannot_be_read() -> None:
    over, unread = Bench(None, None), Bench(None, ReadFailed(reason="no quorum"))
    for bench in (over, unread):
        bench.sessions.attach(attached(), bench.told.append)

    assert over.told == [NO_SESSION]
    assert isinstance(unread.told[0], Refused)
    assert not unread.told[0].no_session
    assert over.writes == unread.writes == []


def test_the_end_of_a_session_is_a_tombstone() -> None:
    bench = Bench(lasting(), None)
    bench.sessions.end(SESSION, bench.told.append)

    assert bench.writes == [Write(key=session_key(SESSION), value=None, mutable=True)]
