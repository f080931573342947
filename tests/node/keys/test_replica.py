"""One message, one transaction, and no word of it before the disk has it."""

from collections.abc import Callable, Sequence

import msgspec
import pytest
from msgspec.structs import replace

from epoxy.codec.tuple import pack
from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.cluster import CONFIG_KEY, FIRST_SYSTEM_KEY
from epoxy.model.messages import (
    AcceptOk,
    AlreadyCommitted,
    Behind,
    Commit,
    CommitConflict,
    CommitOk,
    ConfigOk,
    Failed,
    HigherBallot,
    PrepareOk,
    ReadOk,
    Request,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.records import LEGACY_PROPOSAL_ID, ChangelogEntry, Expiry, KeyState
from epoxy.model.writes import Consistency, ExpectedValueDoesNotMatch, ReadResult, Source, Write
from epoxy.node.keys.replica import Replica
from epoxy.node.members import config_record
from epoxy.protocol.effects import Adopt
from epoxy.protocol.keys.operations import Cache, Conclude, Concluded, FastVote, LocalOp, Peek, Reserve, Select
from epoxy.store.keyspace import KV, LEGACY_LAYOUT
from epoxy.store.memory import MemoryStore
from epoxy_sim.patching import Patch, applied
from tests.node.bench import Node
from tests.protocol.keys.harness import (
    KEY,
    A,
    B,
    C,
    accept,
    commit,
    config_of,
    fast_vote,
    fold_of,
    prepare,
    prop,
    read,
    waiting,
)

LEGACY = {pack((LEGACY_LAYOUT, A, KV, KEY, 0)): b"old"}
VALUE = prop(b"v", by=B)
MUTABLE = prop(b"v", by=B, mutable=True)

REQUESTS = (
    prepare(Ballot(2, B)),
    accept(VALUE, Ballot(1, B)),
    accept(VALUE, Ballot(2, B)),
    commit(VALUE),
    read(),
    UpdateConfig(config=config_of(epoch=2)),
)


def select(key: bytes = KEY) -> Select:
    return Select(key=key, writes=(waiting(Write(key=key, value=b"v")),), me=A, epoch=1)


SELECT = select()
OPERATIONS: tuple[LocalOp, ...] = (
    SELECT,
    Reserve(key=KEY, base=0, above=NO_BALLOT, me=A, epoch=1),
    Conclude(key=KEY, proposal=VALUE, epoch=1),
    commit(VALUE),
    Adopt(config=config_of(epoch=2)),
)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_no_reply_leaves_before_the_disk_has_it(request_: Request) -> None:
    """A read changes nothing, but what it saw may not be on the disk yet either."""
    node = Node()
    node.handle(accept(prop(b"other", by=C), Ballot(1, C)))
    replies = node.handle(request_)
    assert replies == []
    node.disk.sync()
    assert len(replies) == 1


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: type(op).__name__)
def test_no_flow_goes_on_before_the_disk_has_it(op: LocalOp) -> None:
    node = Node()
    results = node.perform(op)
    assert results == []
    node.disk.sync()
    assert len(results) == 1


def test_only_a_vote_that_is_a_quorum_is_told_before_the_disk_has_it() -> None:
    """What else a selection finds is told to clients."""
    node = Node(config=config_of(1))
    decides = msgspec.structs.replace(SELECT, decides=True)
    (voted,) = node.perform(decides)
    assert isinstance(voted, FastVote)
    occupied = node.perform(decides)
    assert occupied == []
    node.disk.sync()
    assert len(occupied) == 1


def test_nobody_waits_for_the_news_of_a_decision() -> None:
    """No sync begins for it. The reply leaves after the delay, and not before it is durable."""
    node = Node()
    replies = node.handle(commit(VALUE))
    assert (len(node.disk.flushes), len(node.disk.delays), node.store.pending) == (0, 1, 1)
    node.disk.delays.popleft()()
    assert (len(node.disk.flushes), replies) == (1, [])
    node.disk.sync()
    assert replies == [CommitOk()]


def test_news_share_the_sync_of_a_vote() -> None:
    node = Node()
    news = node.handle(commit(VALUE))
    vote = node.handle(
        replace(commit(VALUE), key=b"another"), replace(accept(prop(b"w", by=C), Ballot(1, C)), key=b"third")
    )
    node.disk.sync_once()
    assert (news, vote, node.store.pending) == ([CommitOk()], [AcceptOk()], 0)


def test_news_that_the_cluster_lives_by_are_urgent() -> None:
    node = Node()
    node.handle(replace(commit(VALUE), key=FIRST_SYSTEM_KEY + b"grants"))
    assert len(node.disk.flushes) == 1


def test_news_of_a_deletion_are_urgent() -> None:
    """A value that ends is hidden as soon as its tombstone is known, and must not be absent for long before that can be
    read."""
    node = Node()
    node.handle(commit(prop(None, by=B, mutable=True)))
    assert len(node.disk.flushes) == 1


def test_news_of_what_replaces_a_value_that_ends_are_urgent() -> None:
    """If it is over here it is hidden, and shown again until the news are durable."""
    node = Node()
    node.handle(commit(replace(prop(b"a", by=B, mutable=True), expiry=Expiry(ttl_ms=1000, since=1))))
    node.disk.delays.popleft()()
    node.disk.sync()
    node.handle(commit(prop(b"b", 2, by=B, nonce=2, mutable=True)))
    assert len(node.disk.flushes) == 1


@pytest.mark.pure("plants a fault in the store")
def test_this_is_noticed_if_replies_do_not_wait() -> None:
    def at_once(_: MemoryStore, done: Callable[[], None], *, urgent: bool = True) -> None:  # noqa: ARG001
        done()

    with applied((Patch(MemoryStore, "when_durable", at_once),)), pytest.raises(AssertionError):
        test_no_reply_leaves_before_the_disk_has_it(REQUESTS[0])


def test_a_refusal_waits_too() -> None:
    """It tells what was promised, and a promise that could still be lost was never made."""
    node = Node()
    promised = node.handle(prepare(Ballot(5, C)))
    refused = node.handle(prepare(Ballot(2, B)))
    assert (promised, refused) == ([], [])
    node.disk.sync_once()
    assert (promised, refused) == ([PrepareOk(vote=None)], [HigherBallot(ballot=Ballot(5, C))])


def test_a_reply_waits_for_transactions_of_other_keys() -> None:
    """The disk syncs in the order of the commits, so this costs nothing and needs no thought."""
    node = Node()
    selected = node.perform(select(b"other"))
    seen = node.handle(read())
    assert (selected, seen) == ([], [])
    node.disk.sync_once()
    assert (len(selected), seen) == (1, [ReadOk(committed=None, vote=None)])


def test_a_read_of_what_a_quiet_disk_holds_answers_at_once() -> None:
    node = Node()
    assert node.handle(read()) == [ReadOk(committed=None, vote=None)]


def test_a_flush_under_way_does_not_cover_what_came_later() -> None:
    node = Node()
    first = node.handle(prepare(Ballot(2, B)))
    second = node.handle(prepare(Ballot(3, C)))
    node.disk.sync_once()
    assert (len(first), len(second)) == (1, 0)
    node.disk.sync_once()
    assert second == [PrepareOk(vote=None)]


def test_nothing_changed_nothing_told_nothing_written() -> None:
    node = Node()
    node.handle_now(commit(VALUE))
    seen: list[KeyState] = []
    node.replica.watchers.append(lambda _, __, after: seen.append(after))
    assert isinstance(node.handle_now(commit(VALUE)), AlreadyCommitted)
    assert isinstance(node.handle_now(prepare(Ballot(2, B))), AlreadyCommitted)
    assert (seen, node.store.pending) == ([], 0)


# What a local reader is shown


def test_a_peek_shows_only_what_is_durable() -> None:
    node = Node()
    peek = Peek(key=KEY, use_cache=True)
    node.handle(commit(VALUE))
    assert node.perform(peek) == [None]
    node.disk.sync()
    assert node.perform(peek) == [ReadResult(committed=VALUE, source=Source.LOCAL)]


def test_a_peek_of_an_overwrite_shows_the_version_before_until_it_is_durable() -> None:
    node = Node()
    node.handle_now(commit(MUTABLE))
    second = prop(b"w", 2, by=B, nonce=2, mutable=True)
    node.handle(commit(second))
    assert node.perform(Peek(key=KEY, use_cache=True)) == [ReadResult(committed=MUTABLE, source=Source.LOCAL)]
    node.disk.sync()
    assert node.perform(Peek(key=KEY, use_cache=True)) == [ReadResult(committed=second, source=Source.LOCAL)]


def test_a_vote_is_not_shown() -> None:
    node = Node()
    node.handle_now(accept(VALUE, Ballot(1, B)))
    assert node.perform(Peek(key=KEY, use_cache=True)) == [None]


def test_the_cache_is_shown_to_those_who_ask_for_it_once_it_is_durable() -> None:
    node = Node()
    assert node.perform(Cache(key=KEY, proposal=VALUE)) == [None]
    assert node.perform(Peek(key=KEY, use_cache=True)) == [None]
    node.disk.sync()
    assert node.perform(Peek(key=KEY, use_cache=True)) == [ReadResult(committed=VALUE, source=Source.CACHE)]
    assert node.perform(Peek(key=KEY, use_cache=False)) == [None]


def test_the_cache_only_moves_to_higher_versions() -> None:
    node = Node()
    newer = prop(b"w", 2, by=C, mutable=True)
    for proposal in (MUTABLE, newer, MUTABLE):
        node.perform(Cache(key=KEY, proposal=proposal))
    node.disk.sync()
    assert node.cached() == newer


def test_a_commit_ends_the_cache_and_nothing_is_cached_over_it() -> None:
    node = Node()
    node.perform(Cache(key=KEY, proposal=MUTABLE))
    node.handle_now(commit(MUTABLE))
    assert node.cached() is None
    node.perform(Cache(key=KEY, proposal=prop(b"w", 2, by=C, mutable=True)))
    node.disk.sync()
    assert node.cached() is None
    assert node.perform(Peek(key=KEY, use_cache=True)) == [ReadResult(committed=MUTABLE, source=Source.LOCAL)]


def test_the_cache_is_not_a_commit_for_the_acceptor() -> None:
    node = Node()
    node.perform(Cache(key=KEY, proposal=VALUE))
    assert node.handle_now(prepare(Ballot(2, B))) == PrepareOk(vote=None)
    assert node.handle_now(read()) == ReadOk(committed=None, vote=None)


# Configurations


def test_configurations_are_adopted_upwards_only() -> None:
    node = Node()
    for epoch, then in ((3, 3), (2, 3), (3, 3), (4, 4), (1, 4)):
        assert node.handle_now(UpdateConfig(config=config_of(epoch=epoch))) == ConfigOk(epoch=then)
        assert node.replica.config == config_of(epoch=then)


def test_another_configuration_of_the_same_epoch_changes_nothing_and_raises_the_alarm() -> None:
    node = Node()
    assert node.handle_now(UpdateConfig(config=config_of(5, epoch=1))) == ConfigOk(epoch=1)
    assert node.replica.config == config_of(3)
    assert len(node.alarms) == 1


def test_a_configuration_that_is_decided_is_in_force() -> None:
    """The register is a key like any other: whoever learns its next version has adopted that epoch."""
    node = Node()
    decided = config_record.to_proposal(config_of(5, epoch=2))
    assert node.handle_now(Commit(key=CONFIG_KEY, epoch=1, proposal=decided)) == CommitOk()
    assert node.replica.config == config_of(5, epoch=2)
    assert node.handle_now(UpdateConfig(config=config_of(5, epoch=2))) == ConfigOk(epoch=2)
    assert node.alarms == []


def test_a_flow_that_adopts_is_told_what_is_in_force() -> None:
    node = Node()
    newer = node.perform(Adopt(config=config_of(epoch=4)))
    older = node.perform(Adopt(config=config_of(epoch=2)))
    node.disk.sync()
    assert (newer, older) == ([config_of(epoch=4)], [config_of(epoch=4)])


def test_an_adopted_configuration_survives_and_beats_the_operators() -> None:
    node = Node()
    node.handle_now(UpdateConfig(config=config_of(5, epoch=2)))
    again = Node(contents=node.store.survivors(), config=config_of(3))
    assert again.replica.config == config_of(5, epoch=2)
    assert again.handle_now(read(epoch=1)) == StaleEpoch(config=config_of(5, epoch=2))


def test_an_adoption_that_was_never_acknowledged_may_be_lost() -> None:
    node = Node()
    told = node.handle(UpdateConfig(config=config_of(epoch=2)))
    assert told == []
    assert Node(contents=node.store.survivors()).replica.config.epoch == 1


def test_the_operators_configuration_is_kept_at_the_first_start() -> None:
    node = Node(config=config_of(5))
    assert Node(contents=node.store.survivors(), config=config_of(3)).replica.config == config_of(5)


# Envelopes


def test_requests_of_one_envelope_run_in_order_and_the_last_one_answers() -> None:
    node = Node()
    second = prop(b"w", 2, by=C, mutable=True)
    vote = accept(second, Ballot(1, C))
    assert node.handle_now(vote) == Behind(version=0)
    assert node.handle_now(commit(MUTABLE), vote) == AcceptOk()
    assert node.state() == KeyState(committed=MUTABLE, vote=fast_vote(second))


def test_a_configuration_travels_before_the_request_that_needs_it() -> None:
    node = Node()
    reply = node.handle_now(UpdateConfig(config=config_of(epoch=2)), prepare(Ballot(2, B), epoch=2))
    assert reply == PrepareOk(vote=None)


def test_an_envelope_is_answered_when_all_of_it_is_durable() -> None:
    node = Node()
    replies = node.handle(accept(MUTABLE, Ballot(1, B)), commit(MUTABLE), prepare(Ballot(2, B), base=1))
    node.disk.sync_once()
    assert replies == []
    node.disk.sync_once()
    assert replies == [PrepareOk(vote=None)]


# A broken invariant


def test_two_values_for_one_instance_raise_the_alarm_and_overwrite_nothing() -> None:
    node = Node()
    assert node.handle_now(commit(VALUE)) == CommitOk()
    before = node.store.survivors()
    other = prop(b"other", by=C)
    assert node.handle_now(commit(other)) == CommitConflict(committed=VALUE)
    (alarm,) = node.alarms
    assert "two values" in alarm
    assert repr(other) in alarm
    assert repr(VALUE) in alarm
    assert node.store.survivors() == before


def test_the_alarm_is_raised_even_if_the_conflict_is_not_the_answer() -> None:
    node = Node()
    node.handle_now(commit(VALUE))
    assert node.handle_now(commit(prop(b"other", by=C)), read()) == ReadOk(committed=VALUE, vote=None)
    assert len(node.alarms) == 1


def test_learning_the_same_again_is_no_alarm() -> None:
    node = Node()
    node.handle_now(commit(VALUE), commit(VALUE))
    assert node.alarms == []


# Values of the first layout


def test_a_legacy_value_blocks_votes_and_promises() -> None:
    node = Node(contents=LEGACY)
    legacy = prop(b"old", 0, by=LEGACY_PROPOSAL_ID.replica_id, nonce=LEGACY_PROPOSAL_ID.nonce)
    for request in (accept(VALUE, Ballot(1, B)), prepare(Ballot(2, B)), accept(VALUE, Ballot(2, B))):
        assert node.handle_now(request) == AlreadyCommitted(committed=legacy)
    assert node.state() == KeyState(committed=legacy)


def test_a_commit_against_a_legacy_value_is_a_conflict() -> None:
    node = Node(contents=LEGACY)
    assert isinstance(node.handle_now(commit(VALUE)), CommitConflict)
    assert len(node.alarms) == 1
    assert node.state().version == 0


def test_a_legacy_value_is_read_as_such() -> None:
    node = Node(contents=LEGACY)
    (result,) = node.perform(Peek(key=KEY, use_cache=True))
    assert isinstance(result, ReadResult)
    assert (result.value, result.source) == (b"old", Source.LEGACY)
    node.read(Consistency.SKIP_CACHE)
    assert node.reads == [result]
    assert node.transport.sent == []


def test_a_write_meets_a_legacy_value_at_home() -> None:
    node = Node(contents=LEGACY)
    node.write(b"new")
    node.disk.sync()
    (outcome,) = node.outcomes
    assert isinstance(outcome, ExpectedValueDoesNotMatch)
    assert outcome.committed.value == b"old"
    assert node.transport.sent == []


# The home operations meet the same state as the messages do


def test_home_and_peers_see_one_state() -> None:
    node = Node()
    selected = node.perform(SELECT)
    node.disk.sync()
    mine = prop(b"v", by=A, nonce=1)
    assert selected == [FastVote(fold=fold_of(mine))]
    assert node.handle_now(accept(VALUE, Ballot(1, B))) == HigherBallot(ballot=Ballot(1, A))
    concluded = node.perform(Conclude(key=KEY, proposal=mine, epoch=1))
    node.disk.sync()
    assert concluded == [Concluded()]
    assert node.handle_now(read()) == ReadOk(committed=mine, vote=None)


def test_an_operation_of_an_earlier_epoch_is_turned_away() -> None:
    node = Node()
    node.handle_now(UpdateConfig(config=config_of(epoch=2)))
    results = node.perform(SELECT)
    node.disk.sync()
    assert results == [StaleEpoch(config=config_of(epoch=2))]
    assert node.state() == KeyState()


def test_replicas_of_one_store_do_not_share_rows() -> None:
    store = MemoryStore()
    first, second = (Replica(i, store, config_of(), lambda _: None) for i in (A, B))
    first.handle([commit(VALUE)], lambda _: None)
    told: list[object] = []
    second.handle([read()], told.append)
    assert told == [ReadOk(committed=None, vote=None)]


class FarStore(MemoryStore):
    """As a store that nodes share: rules run for owned keys alone."""

    loads_ahead = True


@pytest.mark.pure("inherits from a compiled class")
def test_a_retired_replica_runs_no_rule_any_more() -> None:
    """The node became the gateway, and is made anew over the same store: flows of the old one must not write what they
    have cached."""
    replica = Replica(A, FarStore(), config_of(), pytest.fail)
    replies: list[object] = []
    replica.handle([accept(VALUE, Ballot(1, B))], replies.append)
    replica.retire()
    replica.handle([commit(VALUE)], replies.append)
    replica.perform(SELECT, lambda result: pytest.fail(f"ran: {result}"))
    assert [type(reply) for reply in replies] == [AcceptOk, Failed]
    assert replica.version(KEY) == 0


def test_a_shard_that_goes_while_others_learn_is_learned_at_its_next_owner() -> None:
    node = Node()
    replica, owned, elsewhere = node.replica, {b"mine", b"going"}, []
    replica.owns = lambda key: key in owned

    def learn_elsewhere(entries: Sequence[ChangelogEntry], done: Callable[[int], None]) -> None:
        elsewhere.append([entry.key for entry in entries])
        owned.discard(b"going")
        done(len(entries))

    replica.learn_elsewhere = learn_elsewhere
    entries = [ChangelogEntry(key=key, committed=VALUE) for key in (b"mine", b"going", b"theirs")]
    news: list[int] = []
    replica.learn_owned(entries, lambda _: None, news.append)
    node.disk.sync()
    assert elsewhere == [[b"theirs"], [b"going"]]
    assert news == [3]
    assert replica.newest(b"mine") == VALUE
    assert replica.newest(b"going") is None


@pytest.mark.pure("puts a method of its own into the store")
def test_a_page_is_loaded_before_it_is_learned() -> None:
    """Row by row from a database, the event loop stood still for longer than a lease."""
    node = Node()
    replica, asked = node.replica, []
    node.store.loads_ahead = True
    owned = {b"mine", b"going"}
    replica.owns = lambda key: key in owned
    replica.learn_elsewhere = lambda entries, done: done(len(entries))

    def load(rows: Sequence[bytes], then: Callable[[], None]) -> None:
        asked.append((list(rows), then))

    node.store.load = load  # type: ignore[method-assign]
    entries = [ChangelogEntry(key=key, committed=VALUE) for key in (b"mine", b"going")]
    news: list[int] = []
    replica.learn_owned(entries, lambda _: None, news.append)
    rows, then = asked.pop()
    assert rows == [row for key in (b"mine", b"going") for row in replica.keyspace.rows_of(key)]
    assert replica.newest(b"mine") is None
    owned.discard(b"going")
    then()
    rows, then = asked.pop()
    assert rows == list(replica.keyspace.rows_of(b"mine")), "the rest is learned at its owner"
    then()
    node.disk.sync()
    assert news == [2]
    assert replica.newest(b"mine") == VALUE
    assert replica.newest(b"going") is None
