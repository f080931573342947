"""A replica's part in a change: what it answers, what it keeps, and that flows are driven to their end."""

from collections.abc import Callable

from epoxy.codec import wire
from epoxy.model.cluster import CHANGE_REQUEST_KEY, CONFIG_KEY, ClusterConfig, ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.members import (
    NO_STAMP,
    ChangelogRead,
    ChangeRequest,
    Member,
    MemberReply,
    MemberRequest,
    MemberStatus,
    Progress,
    SnapshotPage,
    SnapshotRead,
    StatusRead,
    Unsettled,
    UnsettledPage,
    UnsettledRead,
)
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    Commit,
    EpochAhead,
    Failed,
    Prepare,
    PrepareOk,
    Read,
    ReadOk,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.records import ChangelogEntry
from epoxy.model.writes import Committed, Outcome
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import Replica
from epoxy.node.members import member
from epoxy.node.members.peer_gate import PeerGate
from epoxy.protocol.effects import Timing
from epoxy.protocol.members.digest import NOTHING
from epoxy.protocol.members.effects import (
    Ask,
    AskAll,
    CurrentConfig,
    Flow,
    Keep,
    LoadProgress,
    ReadChangeRequest,
    Rest,
    Settle,
    Synced,
    adopt,
    tell,
)
from epoxy.runtime.flow import FlowRunner
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore
from tests.node.bench import HandClock, HandTransport
from tests.protocol.keys.harness import A, B, C, FixedDice, accept, fast_vote, prop

IDENTITY = 1
"""The first number a `FixedDice` draws."""

Answered = Callable[[MemberReply], None]


class Line:
    """Where questions go, and nobody answers by himself."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, MemberRequest, Answered]] = []

    def ask(self, to: int, request: MemberRequest, answered: Answered) -> None:
        self.asked.append((to, request, answered))


class Bench:
    def __init__(self, config: ClusterConfig | None = None, me: int = A, *, is_cleared: bool = True) -> None:
        self.store = MemoryStore()
        self.clock, self.transport, self.line = HandClock(), HandTransport(), Line()
        self.replica = Replica(me, self.store, config or first_epoch((A,)), alarm=print)
        dice = FixedDice()
        self.driver = Driver(self.replica, self.transport, self.clock, dice, Timing(), print)
        space = MemberSpace(self.replica.keyspace, me)
        self.gate = PeerGate(self.replica, self.store, space, self.clock, dice)
        self.member = member.Membership(self.driver, self.store, self.line, dice, self.gate)
        if is_cleared:
            self.greet_all()

    def greet_all(self) -> None:
        """All others have recorded this start."""
        for other in self.replica.config.replica_ids:
            if other != self.replica.me:
                self.gate.answered(other)

    def answer(self, request: MemberRequest) -> MemberReply:
        replies: list[MemberReply] = []
        self.member.answer(request, replies.append)
        (reply,) = replies
        return reply

    def perform(self, effect: object) -> list[object]:
        results: list[object] = []
        self.member.perform(effect, results.append)  # type: ignore[arg-type]
        return results


def test_a_source_tells_its_keys_its_changes_and_itself() -> None:
    bench = Bench()
    bench.replica.learn(b"k", prop(b"v"))
    page = bench.answer(SnapshotRead(reader=B, store=0, after=None, held=NOTHING))
    assert isinstance(page, SnapshotPage)
    assert [entry.key for entry in page.entries] == [b"k", CONFIG_KEY]
    assert page.store == IDENTITY
    changes = bench.answer(ChangelogRead(reader=B, store=IDENTITY, after=NO_STAMP))
    assert not isinstance(changes, Failed | StaleEpoch | EpochAhead | MemberStatus)
    assert bench.answer(StatusRead()) == MemberStatus(identity=IDENTITY, epoch=1)


def test_keys_are_counted_for_those_who_watch_a_change() -> None:
    learner = ReplicaInfo(id=B, status=ReplicaStatus.LEARNING)
    bench = Bench(ClusterConfig(epoch=1, coordinator_id=A, replicas=(ReplicaInfo(id=A), learner)))
    bench.replica.learn(b"k", prop(b"v"))
    assert bench.answer(StatusRead()) == MemberStatus(identity=IDENTITY, epoch=1, keys=1)


def test_votes_are_told_only_in_the_epoch_that_seals_them() -> None:
    bench = Bench(first_epoch((A, B, C)))
    bench.replica.handle((accept(prop(b"v", by=B), fast_vote(prop(b"v", by=B)).ballot),), lambda _: None)
    assert bench.answer(UnsettledRead(epoch=2, after=None)) == EpochAhead(epoch=1)
    two = ClusterConfig(epoch=2, coordinator_id=A, replicas=first_epoch((A, B, C)).replicas)
    bench.replica.handle((UpdateConfig(config=two),), lambda _: None)
    told = UnsettledPage(keys=(Unsettled(key=b"k", version=1),), more=False)
    assert bench.answer(UnsettledRead(epoch=2, after=None)) == told
    assert bench.answer(UnsettledRead(epoch=1, after=None)) == StaleEpoch(config=two)


def test_what_is_copied_is_kept_with_how_far_that_goes() -> None:
    bench = Bench()
    progress = Progress(store=9, cursor=NO_STAMP, after=b"k")
    entry = ChangelogEntry(key=b"k", committed=prop(b"v", by=B))
    assert bench.perform(LoadProgress(source=B)) == [None]
    assert bench.perform(Keep(source=B, entries=(entry,), progress=progress)) == [1]
    assert bench.perform(LoadProgress(source=B)) == [progress]
    assert bench.replica.version(b"k") == 1
    assert bench.perform(Keep(source=B, entries=(), progress=None)) == [0]
    assert bench.perform(LoadProgress(source=B)) == [None]


def test_a_page_is_not_waited_for_beyond_its_epoch() -> None:
    bench = Bench(first_epoch((A, B)))
    page, status = (
        bench.perform(Ask(to=B, request=ChangelogRead(reader=A, store=9, after=NO_STAMP))),
        bench.perform(Ask(to=B, request=StatusRead())),
    )
    two = ClusterConfig(epoch=2, coordinator_id=A, replicas=first_epoch((A, B)).replicas)
    bench.replica.handle((UpdateConfig(config=two),), lambda _: None)
    bench.clock.advance(0)
    assert (page, status) == ([Failed(reason="the epoch is over")], [])
    (_, _, answered), *_ = bench.line.asked
    answered(Failed(reason="too late"))
    assert len(page) == 1


def test_a_question_is_answered_once_or_times_out() -> None:
    bench = Bench(first_epoch((A, B)))
    results = bench.perform(Ask(to=B, request=StatusRead()))
    (_, _, answered), status = bench.line.asked.pop(), MemberStatus(identity=5, epoch=1)
    answered(status)
    answered(status)
    assert results == [status]
    late = bench.perform(Ask(to=B, request=StatusRead()))
    bench.clock.advance(Timing().round_timeout_ms)
    assert late == [Failed(reason="timeout")]


def test_who_is_silent_is_missing_from_the_answers_of_all() -> None:
    bench = Bench(first_epoch((A, B, C)))
    results = bench.perform(AskAll(to=(A, B, C), request=StatusRead()))
    bench.line.asked[0][2](MemberStatus(identity=5, epoch=1))
    assert results == []
    bench.clock.advance(Timing().round_timeout_ms)
    own = MemberStatus(identity=IDENTITY, epoch=1)
    assert results == [{A: own, B: MemberStatus(identity=5, epoch=1)}]


def test_the_wish_is_a_key_that_a_quorum_knows() -> None:
    bench = Bench()
    assert bench.perform(ReadChangeRequest()) == [None]
    wish = ChangeRequest(members=(Member(id=A),))
    outcomes: list[Outcome] = []
    bench.member.request_change(wish, outcomes.append)
    assert isinstance(outcomes[0], Committed)
    assert bench.perform(ReadChangeRequest()) == [wish]
    assert bench.replica.peek(CHANGE_REQUEST_KEY, use_cache=False) is not None


def test_keys_are_settled_with_a_quorum_and_learned() -> None:
    """One alone is a quorum of one: its own vote is decided by looking."""
    bench = Bench()
    decided = prop(b"v", by=B)
    bench.replica.handle((accept(decided, fast_vote(decided).ballot),), lambda _: None)
    done = bench.perform(Settle(keys=(Unsettled(key=b"k", version=1), Unsettled(key=b"never", version=1))))
    bench.clock.advance(bench.driver.timing.hedge_ms)
    assert done == [True]
    assert bench.perform(Settle(keys=())) == [True]


def test_a_configuration_is_told_to_others_and_adopted_here() -> None:
    bench = Bench(first_epoch((A, B)))
    two = ClusterConfig(epoch=2, coordinator_id=A, replicas=(ReplicaInfo(id=A), ReplicaInfo(id=B)))
    flow: Flow[None] = (each for each in (tell((A, B), two),))
    FlowRunner(bench.member, "coordinator", flow, lambda _: None, lambda _: None).start()
    assert [(sent.to, sent.requests) for sent in bench.transport.sent] == [(B, (UpdateConfig(config=two),))]
    assert bench.perform(adopt(two)) == [two]
    assert bench.perform(CurrentConfig()) == [two]


def test_synced_is_told_as_long_as_the_epoch_lasts() -> None:
    bench = Bench()
    bench.perform(Synced(epoch=1))
    status = bench.answer(StatusRead())
    assert isinstance(status, MemberStatus)
    assert status.synced
    two = ClusterConfig(epoch=2, coordinator_id=A, replicas=(ReplicaInfo(id=A),))
    bench.perform(adopt(two))
    status = bench.answer(StatusRead())
    assert isinstance(status, MemberStatus)
    assert not status.synced


def test_a_rest_ends() -> None:
    bench = Bench()
    results = bench.perform(Rest(delay_ms=100.0))
    bench.clock.advance(49.0)
    assert results == []
    bench.clock.advance(1.0)
    assert results == [None]


def test_one_member_alone_becomes_two_when_the_second_answers_and_copies() -> None:
    """The whole way, with the newcomer's half played by hand."""
    bench = Bench()
    bench.member.start()
    wish = ChangeRequest(members=(Member(id=A), Member(id=B)))
    bench.member.request_change(wish, lambda _: None)
    for _ in range(40):
        bench.clock.advance(300.0)
        config = bench.replica.config
        asked, bench.line.asked = bench.line.asked, []
        for to, request, answered in asked:
            assert to == B
            if isinstance(request, StatusRead):
                answered(MemberStatus(identity=5, epoch=config.epoch, sources=(A,), synced=config.is_joint))
        for sent in bench.transport.sent:
            answer_as_newcomer(sent.requests[-1], sent.answered)
        bench.transport.sent = []
    final = bench.replica.config
    assert (final.active, final.is_joint, final.sealed) == ((A, B), False, final.epoch - 2)
    assert wire.decode_config(wire.encode_config(final)) == final


def answer_as_newcomer(request: object, answered: Callable[..., None] | None) -> None:
    if answered is None or isinstance(request, Commit | UpdateConfig):
        return
    match request:
        case Prepare():
            answered(PrepareOk(vote=None))
        case Accept():
            answered(AcceptOk())
        case Read():
            answered(ReadOk(committed=None, vote=None))
        case _:
            raise AssertionError(request)


def test_a_store_that_may_not_vote_coordinates_nothing() -> None:
    """It may be an empty one in place of the member's: nobody has written it down yet. What it makes of a wish would
    count as that member's word."""
    bench = Bench(first_epoch((A, B, C)), is_cleared=False)
    bench.member.coordinate()
    assert (bench.transport.sent, bench.line.asked) == ([], [])
    bench.greet_all()
    bench.member.coordinate()
    assert {type(each.requests[0]) for each in bench.transport.sent} == {Read}, "it asks what is wanted"
