"""One of several nodes of a datacenter: what it serves, what it passes on, and how a shard leaves it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from epoxy.model.api import ReplicaView
from epoxy.model.ballot import Ballot
from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.messages import AcceptOk, ConfigOk, Failed, Inspect, Prepare, PrepareOk, Reply, Request, UpdateConfig
from epoxy.model.records import ExpiryEntry, Proposal
from epoxy.model.sessions import session_key
from epoxy.model.shards import SYSTEM_SHARD, shard_of
from epoxy.model.transactions import Put, Txn, TxnOutcome
from epoxy.model.writes import Committed, Consistency, Outcome, ReadAnswer, ReadResult, Refused, Source, Write
from epoxy.node.datacenter_node import NOT_LOADED, TOOK_MS, DatacenterNode
from epoxy.node.keys.replica import NOT_OWNED
from epoxy.node.keys.shard_handover import QUIESCE_LOOKS, QUIESCE_MS
from epoxy.node.service import READ_LATE
from epoxy.runtime.admission import GRAIN_MS
from epoxy.store.memory import MemoryStore
from tests.node.bench import Disk, HandClock
from tests.node.service_bench import TIMEOUT_MS, HandLinks, settings_of
from tests.protocol.keys.harness import A, B, FixedDice, prop

pytestmark = pytest.mark.pure("its store loads ahead, which is a class that inherits from a store")

MINE, OTHER = b"mine", b"other"
CLASSIC = Ballot(2, B)
FOUND = ReadResult(committed=prop(b"there"), source=Source.LOCAL)


class FarStore(MemoryStore):
    """Rows come near when a test says so."""

    loads_ahead = True

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk.flush)
        self.loads: list[Callable[[], None]] = []
        self.near = True

    def load(self, rows: Sequence[bytes], then: Callable[[], None]) -> None:  # noqa: ARG002
        if self.near:
            then()
        else:
            self.loads.append(then)

    def is_near(self, rows: Sequence[bytes]) -> bool:
        assert rows
        return self.near


class HandRoutes:
    """`ports.OwnerRoutes`: what is passed on is answered by a test."""

    waiting = 0

    def __init__(self, *, is_gateway: bool) -> None:
        self.is_gateway = is_gateway
        self.owned = {shard_of(MINE)} | ({SYSTEM_SHARD} if is_gateway else set())
        self.passed_on: list[tuple[Any, ...]] = []
        self.forwarded: dict[tuple[str, str], int] = {}

    def is_mine(self, key: bytes) -> bool:
        return shard_of(key) in self.owned

    runs = is_mine

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        self.passed_on.append(("write", write, answered))

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        self.passed_on.append(("read", key, answered, consistency))

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        self.passed_on.append(("txn", txn, answered))

    def ordered_write(self, write: Write, mark: Proposal, answered: Callable[[Outcome], None]) -> None:
        self.passed_on.append(("ordered_write", write, mark, answered))

    def ordered_read(
        self, key: bytes, mark: Proposal, consistency: Consistency, answered: Callable[[ReadAnswer], None]
    ) -> None:
        self.passed_on.append(("ordered_read", key, mark, answered, consistency))


class Shared:
    def __init__(self, *, is_gateway: bool = True, n: int = 1) -> None:
        self.disk, self.clock, self.links = Disk(), HandClock(), HandLinks()
        self.store = FarStore(self.disk)
        self.routes = HandRoutes(is_gateway=True)
        self.outcomes: list[Outcome] = []
        self.reads: list[ReadAnswer] = []
        self.node = self._node(n)
        if not is_gateway:
            # The configuration is in the store by now, as a gateway has written it.
            self.routes = HandRoutes(is_gateway=False)
            self.node = self._node(n)
        self.node.start()
        self.disk.sync()

    def _node(self, n: int) -> DatacenterNode:
        node = DatacenterNode(
            settings_of(n), self.store, self.links, self.clock, FixedDice(), pytest.fail, None, self.routes
        )
        self.disk.sync()
        return node

    def write(self, key: bytes, value: bytes = b"v", *, mutable: bool = False) -> None:
        self.node.write(Write(key=key, value=value, mutable=mutable), self.outcomes.append)


def test_a_write_of_an_own_key_waits_for_its_rows_and_runs_here() -> None:
    here = Shared()
    here.store.near = False
    here.write(MINE)
    assert (here.outcomes, here.disk.flushes) == ([], here.disk.flushes)
    here.store.near = True
    here.store.loads.pop()()
    here.disk.sync()
    (outcome,) = here.outcomes
    assert isinstance(outcome, Committed)
    assert here.routes.passed_on == []


def test_the_time_limit_of_a_client_counts_while_rows_are_loaded() -> None:
    """The database may be away for long. Without a quorum a write that waits for rows has not begun."""
    here = Shared(n=3)
    here.node.quorum.is_lost = True
    here.store.near = False
    here.write(MINE)
    here.node.read(MINE, Consistency.OPTIMISTIC, here.reads.append)
    here.clock.advance(TIMEOUT_MS + 2 * GRAIN_MS)
    assert (here.outcomes, here.reads) == ([NOT_LOADED], [READ_LATE])
    here.store.near = True
    for loaded in here.store.loads:
        loaded()
    here.disk.sync()
    assert (here.outcomes, here.reads) == ([NOT_LOADED], [READ_LATE]), "each is answered once"
    assert list(here.node.driver.busy_keys()) == [], "and nothing of them begins late"


def test_reads_that_wait_for_rows_are_bounded() -> None:
    here = Shared()
    here.store.near = False
    for _ in range(101):
        here.node.read(MINE, Consistency.OPTIMISTIC, here.reads.append)
    assert here.reads == [Refused(reason="100 requests wait for rows of the database already")]
    here.store.near = True
    for loaded in here.store.loads:
        loaded()
    assert len(here.reads) == 101
    here.reads.clear()
    here.store.near = False
    here.node.read(MINE, Consistency.OPTIMISTIC, here.reads.append)
    assert here.reads == [], "there is room again"


def test_what_belongs_to_another_node_is_passed_on_and_its_answer_told() -> None:
    here = Shared()
    here.write(OTHER)
    here.node.read(OTHER, Consistency.OPTIMISTIC, here.reads.append)
    (kind, write, written), (second, key, heard, _) = here.routes.passed_on
    assert (kind, write.key, second, key) == ("write", OTHER, "read", OTHER)
    assert here.node.in_flight == 1, "it counts as under way here, with its client's time limit"
    refused = Refused(reason="full")
    written(refused)
    heard(FOUND)
    assert (here.outcomes, here.reads, here.node.in_flight) == ([refused], [FOUND], 0)


def test_a_write_that_was_passed_on_and_is_not_answered_is_unknown() -> None:
    here = Shared()
    here.write(OTHER)
    here.clock.advance(11_000)
    (outcome,) = here.outcomes
    assert type(outcome).__name__ == "ConsensusFailed", "it may take effect: never a definite no"


def test_a_peek_finds_only_what_is_owned_and_near() -> None:
    here = Shared()
    here.write(MINE)
    here.disk.sync()
    assert here.node.peek(MINE) is not None
    here.store.near = False
    assert here.node.peek(MINE) is None
    here.store.near = True
    here.routes.owned.clear()
    assert here.node.peek(MINE) is None
    assert not here.node.stays(MINE, FOUND)


def test_transactions_and_their_keys_go_from_a_shard_node_to_the_gateway() -> None:
    here, told = Shared(is_gateway=False), list[TxnOutcome]()
    here.node.txn(Txn(then=(Put(key=b"a", value=b"1"),)), told.append)
    assert [each[0] for each in here.routes.passed_on] == ["txn"]
    here.node.driver.write(Write(key=session_key(bytes(16)), value=b"", mutable=True), here.outcomes.append)
    assert here.routes.passed_on[-1][0] == "write", "a key of the cluster's own"


def test_requests_of_peers_about_keys_of_others_fail() -> None:
    """A shard may have gone while the request was on its way."""
    here, told = Shared(n=3), list[Sequence[Reply]]()
    asked = [Prepare(key=key, epoch=1, ballot=CLASSIC, base=0) for key in (MINE, OTHER)]
    here.node.handle(asked, told.append)
    here.disk.sync()
    ((mine, other),) = told
    assert not isinstance(mine, Failed)
    assert other == NOT_OWNED


def test_a_key_is_inspected_at_its_owner() -> None:
    here, told = Shared(), list[list[ReplicaView]]()
    here.node.inspect(OTHER, told.append)
    here.disk.sync()
    assert told[0][0].reason == NOT_OWNED.reason, "without other nodes there is only this one to ask"

    def owner(requests: Sequence[Request], answered: Callable[[Sequence[Reply]], None]) -> None:
        assert requests == [Inspect(key=OTHER)]
        answered([Failed(reason="the owner was asked")])

    here.node.dispatch = owner
    here.node.inspect(OTHER, told.append)
    assert told[1][0].reason == "the owner was asked"


def test_ownership_is_looked_at_when_the_rows_are_there() -> None:
    here, told = Shared(n=3), list[Sequence[Reply]]()
    here.store.near = False
    here.node.handle([Prepare(key=MINE, epoch=1, ballot=CLASSIC, base=0)], told.append)
    here.routes.owned.clear()
    here.store.near = True
    here.store.loads.pop()()
    here.disk.sync()
    assert told == [[NOT_OWNED]]


def test_a_shard_is_handed_over_when_its_writes_have_ended_and_are_durable() -> None:
    here, rested = Shared(n=3), list[bool]()
    here.links.rtts = {B: 1.0, 3: 1.0}
    left: list[str] = []
    here.node.on_handover(lambda: left.append("caches"))
    here.write(MINE)
    here.disk.sync()
    here.routes.owned.discard(shard_of(MINE))
    here.node.quiesce(shard_of(MINE), rested.append)
    here.clock.advance(QUIESCE_MS)
    assert (rested, left) == ([], []), "a write is under way"
    for sent in [each for each in here.links.sent if each.answered is not None]:
        sent.answer(AcceptOk())
    here.disk.sync()
    assert isinstance(here.outcomes[0], Committed), "it ends here, although the shard is leaving"
    here.clock.advance(QUIESCE_MS)
    here.disk.sync()
    assert (rested, left) == ([True], ["caches"])
    told: list[Sequence[Reply]] = []
    here.node.handle([Prepare(key=MINE, epoch=1, ballot=CLASSIC, base=1)], told.append)
    here.disk.sync()
    assert told == [[NOT_OWNED]], "and no rule runs for it any more"


def test_a_shard_whose_writes_do_not_end_stays() -> None:
    here, rested = Shared(n=3), list[bool]()
    here.links.rtts = {B: 1.0, 3: 1.0}
    here.write(MINE)
    here.disk.sync()
    here.node.quiesce(shard_of(MINE), rested.append)
    here.clock.advance(QUIESCE_MS * (QUIESCE_LOOKS + 1))
    assert rested == [False]


def test_a_shard_node_holds_its_rules_until_the_configuration_is_told() -> None:
    """What was voted before the replica adopts an epoch must be durable before that, and nothing may follow."""
    here, told, rested = Shared(is_gateway=False, n=3), list[Sequence[Reply]](), list[bool]()
    here.node.replica.hold(lambda: rested.append(True))
    here.disk.sync()
    assert rested == [True]
    here.node.handle([Prepare(key=MINE, epoch=1, ballot=CLASSIC, base=0)], told.append)
    here.disk.sync()
    assert told == [], "no rule runs"
    config = here.node.replica.config
    following = type(config)(
        epoch=config.epoch + 1, coordinator_id=A, replicas=config.replicas, quorum_policy=config.quorum_policy
    )
    before = here.store.newest().get(here.node.replica.keyspace.value_row(CONFIG_KEY))
    here.node.handle([UpdateConfig(config=following)], told.append)
    here.disk.sync()
    assert here.node.replica.config == following
    replies = [reply for each in told for reply in each]
    assert ConfigOk(epoch=following.epoch) in replies
    assert not any(isinstance(reply, PrepareOk) for reply in replies), "of an epoch that is over"
    assert here.store.newest().get(here.node.replica.keyspace.value_row(CONFIG_KEY)) == before, "the gateway writes it"


def test_the_gateway_lets_others_rest_before_it_adopts() -> None:
    here, adopt = Shared(n=3), list[Callable[[], None]]()
    here.node.replica.rest_first = adopt.append
    config = here.node.replica.config
    following = type(config)(
        epoch=config.epoch + 1, coordinator_id=A, replicas=config.replicas, quorum_policy=config.quorum_policy
    )
    told: list[Sequence[Reply]] = []
    here.node.handle([UpdateConfig(config=following)], told.append)
    here.disk.sync()
    assert (here.node.replica.config, told) == (config, [])
    adopt.pop()()
    here.disk.sync()
    assert (here.node.replica.config, told) == (following, [[ConfigOk(epoch=following.epoch)]])


def test_the_end_of_a_session_is_told_when_it_is_durable() -> None:
    here, over = Shared(), list[bytes]()
    here.node.session_ended = over.append
    session = bytes(range(16))
    here.node.sessions.begin(10_000, here.outcomes.append)
    here.disk.sync()
    here.node.write(Write(key=session_key(session), value=b"", mutable=True, ttl_ms=9_000), here.outcomes.append)
    here.disk.sync()
    here.node.sessions.end(session, here.outcomes.append)
    here.disk.sync_once()
    assert over == []
    here.disk.sync()
    assert over == [session]


def test_shards_that_come_together_are_looked_through_for_leases_once() -> None:
    here, loads = Shared(), list[bytes | None]()

    def expiring(after: bytes | None, _limit: int) -> list[tuple[bytes, ExpiryEntry]]:
        loads.append(after)
        return []

    here.node.leases.indexes[:] = [expiring]
    for _ in range(128):
        here.node.took()
    assert loads == []
    here.clock.advance(TOOK_MS)
    assert loads == [None]
    here.node.took()
    here.clock.advance(TOOK_MS)
    assert loads == [None, None]
