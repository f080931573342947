"""A store votes when others have recorded it and its start; a store that is not what it was counts for nothing."""

import pytest
from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, first_epoch
from epoxy.model.incarnation import Greeting, Incarnation, MismatchCode, Sighting
from epoxy.model.members import StatusRead, UnsettledRead
from epoxy.model.messages import Failed, Inspect, Reply, UpdateConfig
from epoxy.node.keys.replica import Replica
from epoxy.node.members.peer_gate import (
    ALIVE_MS,
    LATELY_MS,
    OBJECTION_MS,
    PASSING_MS,
    REMEMBER_MS,
    GatedTransport,
    PeerGate,
)
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore
from tests.node.bench import Disk, HandClock, HandTransport
from tests.protocol.keys.harness import FixedDice

ME, OTHER, THIRD = 1, 2, 3
FIRST = first_epoch((ME, OTHER, THIRD))
IDENTITY = 1
"""The first number a `FixedDice` draws."""
WRITTEN = replace(
    FIRST, epoch=2, replicas=tuple(ReplicaInfo(id=i, identity=100 * (i - 1) + 1) for i in (ME, OTHER, THIRD))
)
KEY = UpdateConfig(config=FIRST)


class Gate:
    def __init__(
        self, store: MemoryStore | None = None, config: ClusterConfig = FIRST, *, strict: bool = False
    ) -> None:
        self.store = store or MemoryStore()
        self.clock = HandClock()
        self.alarms: list[str] = []
        replica = Replica(ME, self.store, config, alarm=print)
        space = MemberSpace(replica.keyspace, ME)
        self.gate = PeerGate(replica, self.store, space, self.clock, FixedDice(), strict=strict)
        self.gate.alarm = self.alarms.append
        self.notices: list[str] = []
        self.gate.notice = self.notices.append

    def restarted(self) -> "Gate":
        return Gate(MemoryStore(contents=self.store.survivors()))

    def meet(self, greeting: Greeting, peer: int = OTHER, told: Sighting | None = None) -> MismatchCode | None:
        mismatch = self.gate.meet(peer, greeting, told)
        return mismatch.code if mismatch is not None else None


def start(counter: int = 5, nonce: int = 50, *, base: int = 100, position: int = 110, store: int = 7) -> Greeting:
    return Greeting(incarnation=Incarnation(store=store, counter=counter, nonce=nonce, base=base), position=position)


def seen(counter: int, nonce: int, position: int, store: int = IDENTITY) -> Sighting:
    return Sighting(store=store, counter=counter, nonce=nonce, position=position)


# Stores


def test_the_first_store_met_is_the_one_even_after_a_restart() -> None:
    here = Gate()
    assert here.meet(start(store=7)) is None
    again = here.restarted()
    assert again.meet(start(store=7)) is None
    assert again.meet(start(store=8)) is MismatchCode.ANOTHER_STORE
    assert again.alarms == ["replica 2 is refused: " + again.gate.meet(OTHER, start(store=8)).words]  # type: ignore[union-attr]


def test_the_configuration_knows_better() -> None:
    here = Gate(config=WRITTEN)
    assert here.meet(start(store=101)) is None
    assert here.meet(start(store=7)) is MismatchCode.ANOTHER_STORE


def test_a_store_votes_once_a_majority_of_the_others_deals_with_it() -> None:
    here = Gate()
    assert not here.gate.may_vote
    changes: list[bool] = []
    here.gate.changed = lambda: changes.append(here.gate.may_vote)
    here.gate.answered(OTHER)
    assert (here.gate.may_vote, here.gate.is_known, here.gate.is_cleared) == (False, False, True), "of two others, both"
    here.gate.answered(THIRD)
    assert (here.gate.may_vote, changes) == (True, [True])
    again = here.restarted().gate
    assert (again.is_known, again.may_vote) == (True, False), "the store is known, its start is not"
    again.answered(THIRD)
    assert again.may_vote


def test_an_empty_store_in_place_of_the_one_on_record_does_not_vote() -> None:
    empty = Gate(config=replace(WRITTEN, replicas=(ReplicaInfo(id=ME, identity=666), *WRITTEN.replicas[1:])))
    for other in (OTHER, THIRD):
        empty.gate.answered(other)
    assert not empty.gate.may_vote


# Starts


def test_every_start_has_the_next_number_and_a_nonce_of_its_own() -> None:
    here = Gate()
    again = Gate(MemoryStore(contents=here.store.survivors()))
    one, two = here.gate.incarnation, again.gate.incarnation
    assert (two.store, two.counter) == (one.store, one.counter + 1)
    assert two.base == here.store.position(), "all that the first process wrote"


def test_nothing_is_said_before_the_start_is_durable() -> None:
    disk = Disk()
    here = Gate(MemoryStore(disk.flush), first_epoch((ME,)))
    assert (here.gate.is_open, here.gate.may_vote, here.gate.serves((KEY,))) == (False, False, False)
    assert here.meet(start()) is MismatchCode.STARTING
    disk.sync()
    assert (here.gate.is_open, here.gate.may_vote) == (True, True), "a single node needs no other"
    assert here.meet(start()) is None


@pytest.mark.parametrize(
    ("greeting", "code"),
    [
        (start(6, 60, base=120, position=121), None),
        (start(4, 40, base=120, position=121), MismatchCode.OLD_COPY),
        (start(5, 51), MismatchCode.CLONE),
        (start(6, 60, base=119, position=140), MismatchCode.SHORTENED),
        (start(5, 50, position=101), None),
        (start(1, 1, base=0, position=1, store=8), MismatchCode.ANOTHER_STORE),
    ],
)
def test_a_start_is_compared_with_what_is_on_record_after_a_restart_too(
    greeting: Greeting, code: MismatchCode | None
) -> None:
    here = Gate()
    assert here.meet(start()) is None
    assert here.gate.hear(OTHER, 50, 120)
    here.clock.advance(REMEMBER_MS)
    assert here.restarted().meet(greeting) is code
    assert here.meet(greeting) is code
    expected = greeting if code is None else start(position=120)
    assert here.gate.greeting(OTHER).known == seen(
        expected.incarnation.counter, expected.incarnation.nonce, max(120, expected.position), 7
    )


def test_a_running_store_is_compared_with_what_it_was_told() -> None:
    """Its position may have risen between its greeting and this moment, but not fallen below what it was told."""
    here = Gate()
    assert here.meet(start(position=110)) is None
    assert here.meet(start(position=109), told=seen(5, 50, 110, 7)) is MismatchCode.SHORTENED
    assert here.meet(start(position=110), told=seen(5, 50, 110, 7)) is None


def test_a_new_start_is_durable_before_answers_leave_and_a_position_a_little_later() -> None:
    disk = Disk()
    here = Gate(MemoryStore(disk.flush))
    disk.sync()
    here.meet(start())
    answered: list[bool] = []
    here.store.when_durable(lambda: answered.append(True))
    assert not answered
    disk.sync()
    assert answered
    position = here.store.position()
    assert here.gate.hear(OTHER, 50, 130)
    assert here.gate.hear(OTHER, 50, 125), "an answer that was overtaken"
    here.clock.advance(REMEMBER_MS)
    disk.sync()
    assert here.restarted().gate.greeting(OTHER).known == seen(5, 50, 130, 7)
    assert here.store.position() == position, "or two idle nodes would raise each other's for ever"


def test_only_the_start_on_record_is_heard() -> None:
    here = Gate()
    assert not here.gate.hear(OTHER, 50, 110)
    here.meet(start())
    assert here.gate.hear(OTHER, 50, 111)
    here.meet(start(6, 60, base=111))
    assert here.gate.hear(OTHER, 60, 112)
    assert not here.gate.hear(OTHER, 50, 113)


def test_another_store_that_the_configuration_names_replaces_the_record() -> None:
    here = Gate()
    here.meet(start(store=7))
    here.gate._replica.config = WRITTEN
    assert not here.gate.hear(OTHER, 50, 120), "the store on record is another now"
    assert here.meet(start(1, 11, base=0, position=2, store=101)) is None
    assert here.gate.greeting(OTHER).known == seen(1, 11, 2, 101)


# Two processes


def test_while_an_older_start_answers_a_newer_one_is_refused() -> None:
    here = Gate()
    here.meet(start())
    here.gate.connected(OTHER, 50)
    copy = start(6, 60, base=110)
    assert here.meet(copy) is MismatchCode.STILL_RUNNING
    here.gate.disconnected(OTHER, 50)
    assert here.meet(copy) is None, "the connection was closed: the older one has ended"


def test_a_connection_without_a_word_for_seconds_is_no_process() -> None:
    here = Gate()
    here.meet(start())
    here.gate.connected(OTHER, 50)
    here.clock.advance(ALIVE_MS - 1)
    assert here.meet(start(6, 60, base=110)) is MismatchCode.STILL_RUNNING
    here.clock.advance(1)
    assert here.meet(start(6, 60, base=110)) is None


# Ourselves


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (seen(2, 9, 3), "an older copy"),
        (seen(1, 9, 3), "another process was started from a copy"),
        (seen(0, 9, 50), "it held more before"),
    ],
)
def test_a_store_that_another_knows_better_refuses_itself_for_good(known: Sighting, words: str) -> None:
    here = Gate()
    here.gate.answered(OTHER)
    here.gate.answered(THIRD)
    assert here.gate.may_vote
    changes: list[str] = []
    here.gate.changed = lambda: changes.append(here.gate.refused)
    here.gate.told(THIRD, known)
    assert words in here.gate.refused
    assert "epoxy members add NEW-ID URL --replace 1" in here.gate.refused
    assert changes == here.alarms == [here.gate.refused]
    for gate in (here.gate, here.restarted().gate):
        assert gate.refused == here.gate.refused
        gate.answered(OTHER)
        assert (gate.may_vote, gate.serves((KEY,)), gate.answers(StatusRead())) == (False, False, False)
        mismatch = gate.meet(OTHER, start())
        assert mismatch is not None, "it records nothing, so it clears no other"
        assert mismatch.code is MismatchCode.REFUSED_HERE
        assert gate.greeting(OTHER).known is None
    assert here.restarted().gate.incarnation.counter == 1, "a refused store is left as it is"


def test_what_another_remembers_of_the_store_as_it_is_changes_nothing() -> None:
    here = Gate()
    mine = here.gate.incarnation
    for known in (None, seen(mine.counter, mine.nonce, here.store.position()), seen(9, 9, 99, 1234)):
        here.gate.told(OTHER, known)
    assert not here.gate.refused


def test_a_process_that_was_refused_is_told_of_for_a_while_unless_it_is_heard_since() -> None:
    here = Gate()
    first, second = start(1, 1), start(2, 2, base=200)
    assert here.gate.refused_lately(OTHER) == ""
    assert here.gate.meet(OTHER, first) is None
    here.gate.connected(OTHER, first.incarnation.nonce)
    assert here.gate.meet(OTHER, second) is not None
    assert here.gate.refused_lately(OTHER) == "still_running"
    here.clock.advance(LATELY_MS)
    assert here.gate.refused_lately(OTHER) == ""
    here.gate.hear(OTHER, first.incarnation.nonce, 0)
    assert here.gate.meet(OTHER, second) is not None
    here.gate.disconnected(OTHER, first.incarnation.nonce)
    assert here.gate.meet(OTHER, second) is None
    assert here.gate.refused_lately(OTHER) == ""


def test_a_start_waits_for_a_peer_that_refuses_it() -> None:
    here = Gate(config=WRITTEN)
    reasons: list[str] = []
    here.gate.changed = lambda: reasons.append(here.gate.waits_for)
    for _ in range(2):
        here.gate.objected(THIRD, MismatchCode.STILL_RUNNING)
    here.gate.answered(OTHER)
    assert not here.gate.may_vote
    here.gate.answered(THIRD)
    assert here.gate.may_vote
    assert reasons == [
        "replica 3 says that an earlier start of the same store still runs: stop one of the two",
        "",
    ]


@pytest.mark.parametrize("code", [MismatchCode.OLD_COPY, MismatchCode.CLONE, MismatchCode.SHORTENED])
def test_a_peer_that_knows_better_since_the_handshake_is_believed_for_good(code: MismatchCode) -> None:
    """As when a copy waits for the original to end: the original goes on meanwhile, and then the peer falls silent."""
    here = Gate(config=WRITTEN)
    here.gate.objected(THIRD, MismatchCode.STILL_RUNNING)
    here.gate.objected(THIRD, code)
    here.clock.advance(OBJECTION_MS)
    here.gate.answered(OTHER)
    assert not here.gate.may_vote
    assert here.restarted().gate.refused == here.gate.refused
    assert "replica 3 knows better" in here.gate.refused
    assert here.alarms == [here.gate.refused]


def test_a_peer_that_refused_it_and_fell_silent_is_not_waited_for() -> None:
    here = Gate(config=WRITTEN)
    here.gate.objected(THIRD, MismatchCode.STILL_RUNNING)
    here.gate.answered(OTHER)
    here.clock.advance(OBJECTION_MS)
    assert not here.gate.may_vote
    here.gate.answered(OTHER)
    assert here.gate.may_vote


def test_a_peer_that_is_starting_itself_is_no_reason_to_wait() -> None:
    here = Gate(config=WRITTEN)
    here.gate.objected(THIRD, MismatchCode.STARTING)
    here.gate.answered(OTHER)
    assert here.gate.may_vote


def test_a_strict_start_waits_for_more() -> None:
    here = Gate(config=WRITTEN, strict=True)
    here.gate.answered(OTHER)
    assert not here.gate.may_vote
    here.gate.answered(THIRD)
    assert here.gate.may_vote


# What may pass


def test_before_it_votes_only_configurations_pass() -> None:
    here = Gate(config=WRITTEN)
    transport, replies = HandTransport(), list[Reply]()
    gated = GatedTransport(here.gate, transport)
    inspect = Inspect(key=b"k")
    assert (here.gate.serves((inspect,)), here.gate.serves((KEY,))) == (False, True)
    assert (here.gate.answers(UnsettledRead(epoch=1, after=None)), here.gate.answers(StatusRead())) == (False, True)
    gated.send(OTHER, (inspect,), replies.append)
    gated.send(OTHER, (inspect,), None)
    gated.send(OTHER, (KEY,), None)
    assert [each.requests for each in transport.sent] == [(KEY,)]
    assert [type(reply) for reply in replies] == [Failed]
    here.gate.answered(OTHER)
    gated.send(OTHER, (inspect,), None)
    assert len(transport.sent) == 2
    assert here.gate.serves((inspect,))
    assert here.gate.answers(UnsettledRead(epoch=1, after=None))


# Several nodes of a datacenter


def of_nodes(urls: str) -> ClusterConfig:
    """The other one has these addresses."""
    return replace(FIRST, replicas=tuple(ReplicaInfo(id=i, url=urls if i == OTHER else "") for i in (ME, OTHER, THIRD)))


@pytest.mark.parametrize("urls", ["http://a,http://b", "http://a"])
def test_a_process_that_was_superseded_wakes_no_operator_unless_it_goes_on(urls: str) -> None:
    """It was paused until then, or has ended, and what it sent before is read late."""
    here = Gate(config=of_nodes(urls))
    assert here.meet(start(5, 50)) is None
    assert here.meet(start(6, 60, base=110)) is None, "another process has taken over"
    for _ in range(3):
        assert here.meet(start(5, 50)) is MismatchCode.OLD_COPY
        here.clock.advance(PASSING_MS / 4)
    assert here.alarms == []
    assert here.notices == [
        "another process of replica 2 has taken over: one that was superseded is not heard any more"
    ]
    assert (here.gate.refused_lately(OTHER), here.gate.refusals) == ("", {})
    assert here.gate.hear(OTHER, 60, 120), "the one that took over is heard all the while"
    here.clock.advance(PASSING_MS)
    for _ in range(2):
        assert here.meet(start(5, 50)) is MismatchCode.OLD_COPY
    assert len(here.alarms) == 1
    assert here.gate.refused_lately(OTHER) == "old_copy"


@pytest.mark.parametrize("urls", ["http://a,http://b", "http://a"])
def test_a_copy_with_a_start_of_its_own_is_told_at_once(urls: str) -> None:
    here = Gate(config=of_nodes(urls))
    for counter in (5, 6, 7):
        assert here.meet(start(counter, 10 * counter, base=110 + counter)) is None
    assert here.meet(start(6, 66)) is MismatchCode.OLD_COPY
    assert (len(here.alarms), here.notices) == (1, [])


@pytest.mark.parametrize("urls", ["http://a,http://b", "http://a"])
def test_a_node_that_takes_over_while_the_one_before_is_connected(urls: str) -> None:
    here = Gate(config=of_nodes(urls))
    assert here.meet(start(5, 50)) is None
    here.gate.connected(OTHER, 50)
    assert here.meet(start(6, 60, base=110)) is MismatchCode.STILL_RUNNING
    is_of_several = "," in urls
    assert (len(here.notices), len(here.alarms)) == ((1, 0) if is_of_several else (0, 1))
    here.clock.advance(ALIVE_MS)
    assert here.meet(start(6, 60, base=110)) is None
