"""How a replica comes to hold what the others hold."""

from typing import TypeVar

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.members import (
    NO_STAMP,
    ChangelogPage,
    ChangelogRead,
    ChangeRequest,
    CursorTruncated,
    Member,
    Progress,
    SnapshotPage,
    SnapshotRead,
    Stretch,
    Unsettled,
    UnsettledPage,
    UnsettledRead,
)
from epoxy.model.messages import EpochAhead, Failed, StaleEpoch
from epoxy.model.records import ChangelogEntry, Proposal, ProposalId
from epoxy.protocol.members.digest import NOTHING
from epoxy.protocol.members.effects import (
    Ask,
    Changing,
    CurrentConfig,
    Effect,
    Flow,
    Followed,
    GiveWay,
    Keep,
    LoadProgress,
    Repair,
    Settle,
    Summarise,
    Synced,
    adopt,
    tell,
)
from epoxy.protocol.members.learner import (
    CALM_SHARE,
    LEARNING_SHARE,
    compare,
    copy,
    is_changing,
    learn,
    sources_in_order,
    sync,
)
from tests.protocol.members import bench

T = TypeVar("T")

A, B, C, D, E = 1, 2, 3, 4, 5
ME = D
SILENCE = Failed(reason="timeout")
STORE = 77
JOINT = ClusterConfig(
    epoch=7,
    coordinator_id=A,
    replicas=(
        ReplicaInfo(id=A, status=ReplicaStatus.LEAVING),
        ReplicaInfo(id=B, status=ReplicaStatus.LEAVING),
        *(ReplicaInfo(id=i) for i in (C, D, E)),
    ),
    previous=(A, B, C),
)


def entry(key: bytes) -> ChangelogEntry:
    return ChangelogEntry(
        key=key, committed=Proposal(value=b"v", version=1, mutable=False, proposal_id=ProposalId(A, 1))
    )


def stamp(number: int) -> bytes:
    return number.to_bytes(8, "big") + bytes(2)


def snapshot(after: bytes | None = None, held: Stretch = NOTHING) -> Ask:
    store = STORE if after is not None else 0
    return Ask(to=A, request=SnapshotRead(reader=ME, store=store, after=after, held=held))


def look(after: bytes | None = None, held: Stretch = NOTHING) -> tuple[Summarise, Stretch]:
    return Summarise(after=after), held


def changelog(after: bytes) -> Ask:
    return Ask(to=A, request=ChangelogRead(reader=ME, store=STORE, after=after))


def keep(*keys: bytes, cursor: bytes, after: bytes | None = None, copied: bool = True) -> Keep:
    progress = Progress(store=STORE, cursor=cursor, after=after, copied=copied)
    return Keep(source=A, entries=tuple(map(entry, keys)), progress=progress)


CHANGING = ClusterConfig(
    epoch=8,
    coordinator_id=A,
    replicas=(ReplicaInfo(id=A), ReplicaInfo(id=B), ReplicaInfo(id=ME, status=ReplicaStatus.LEARNING)),
)


def play(flow: Flow[T], *script: tuple[Effect, object], config: ClusterConfig = CHANGING, changing: bool = True) -> T:
    """The epoch does not change on the way."""
    return bench.play(flow, *script, asides={CurrentConfig: config, Changing: changing})


def calmly(flow: Flow[T], *script: tuple[Effect, object]) -> T:
    return play(flow, *script, changing=False)


LOAD = LoadProgress(source=A)
REST = (GiveWay(share=LEARNING_SHARE), None)
END_OF_SNAPSHOT = SnapshotPage(store=STORE, entries=(entry(b"c"),), cursor=stamp(9), more=False)
TAIL = ChangelogPage(entries=(), cursor=stamp(5), more=False)


def learning() -> Flow[bool]:
    return copy(CHANGING, ME, A, LEARNING_SHARE)


def test_a_snapshot_and_then_the_changelog_from_where_it_stood_at_the_first_page() -> None:
    page = SnapshotPage(store=STORE, entries=(entry(b"a"), entry(b"b")), cursor=stamp(5), more=True)
    news = ChangelogPage(entries=(entry(b"a0"),), cursor=stamp(6), more=True)
    assert play(
        learning(),
        (LOAD, None),
        look(),
        (snapshot(), page),
        (keep(b"a", b"b", cursor=stamp(5), after=b"b", copied=False), 1),
        REST,
        look(b"b"),
        (snapshot(b"b"), END_OF_SNAPSHOT),
        (keep(b"c", cursor=stamp(5)), 1),
        REST,
        (changelog(stamp(5)), news),
        (keep(b"a0", cursor=stamp(6)), 0),
        REST,
        (changelog(stamp(6)), ChangelogPage(entries=(), cursor=stamp(6), more=False)),
    )


def test_who_holds_next_to_nothing_does_not_look_at_it_for_every_page() -> None:
    page = SnapshotPage(store=STORE, entries=(entry(b"a"), entry(b"b")), cursor=stamp(5), more=True)
    assert play(
        learning(),
        (LOAD, None),
        look(),
        (snapshot(), page),
        (keep(b"a", b"b", cursor=stamp(5), after=b"b", copied=False), 2),
        REST,
        (snapshot(b"b"), END_OF_SNAPSHOT),
        (keep(b"c", cursor=stamp(5)), 1),
        REST,
        (changelog(stamp(5)), TAIL),
    )


def test_a_stretch_that_both_hold_is_passed_over() -> None:
    held = Stretch(until=b"m", count=2, digest=bytes(16))
    same = SnapshotPage(store=STORE, entries=(), cursor=stamp(5), more=False)
    assert play(
        learning(),
        (LOAD, None),
        look(None, held),
        (snapshot(None, held), same),
        (keep(cursor=stamp(5), after=b"m", copied=False), 0),
        REST,
        look(b"m"),
        (snapshot(b"m"), END_OF_SNAPSHOT),
        (keep(b"c", cursor=stamp(5)), 1),
        REST,
        (changelog(stamp(5)), TAIL),
    )


def test_an_empty_source_is_copied_too() -> None:
    page = SnapshotPage(store=STORE, entries=(), cursor=NO_STAMP, more=False)
    assert play(
        learning(),
        (LOAD, None),
        look(),
        (snapshot(), page),
        (keep(cursor=NO_STAMP), 0),
        REST,
        (changelog(NO_STAMP), ChangelogPage(entries=(), cursor=NO_STAMP, more=False)),
    )


def test_a_snapshot_goes_on_where_it_was_interrupted() -> None:
    assert play(
        learning(),
        (LOAD, Progress(store=STORE, cursor=stamp(5), after=b"b")),
        look(b"b"),
        (snapshot(b"b"), END_OF_SNAPSHOT),
        (keep(b"c", cursor=stamp(5)), 1),
        REST,
        (changelog(stamp(5)), TAIL),
    )


COPIED = Progress(store=STORE, cursor=stamp(5), copied=True)


def test_what_is_copied_is_followed_and_not_copied_again() -> None:
    assert play(learning(), (LOAD, COPIED), (changelog(stamp(5)), TAIL))


def test_a_source_that_falls_silent_is_left_for_later() -> None:
    assert not play(learning(), (LOAD, None), look(), (snapshot(), SILENCE))
    assert not play(learning(), (LOAD, COPIED), (changelog(stamp(5)), SILENCE))


def test_rows_that_are_gone_mean_another_snapshot() -> None:
    page = SnapshotPage(store=STORE, entries=(entry(b"a"),), cursor=stamp(8), more=False)
    assert play(
        learning(),
        (LOAD, COPIED),
        (changelog(stamp(5)), CursorTruncated()),
        (Keep(source=A, entries=(), progress=None), 0),
        look(),
        (snapshot(), page),
        (keep(b"a", cursor=stamp(8)), 1),
        REST,
        (changelog(stamp(8)), ChangelogPage(entries=(), cursor=stamp(8), more=False)),
    )


def test_a_source_that_forgets_faster_than_it_can_be_copied_is_given_up_for_now() -> None:
    page = SnapshotPage(store=STORE, entries=(), cursor=stamp(5), more=False)
    again = (
        look(),
        (snapshot(), page),
        (keep(cursor=stamp(5)), 0),
        REST,
        (changelog(stamp(5)), CursorTruncated()),
        (Keep(source=A, entries=(), progress=None), 0),
    )
    assert not play(learning(), (LOAD, None), *again, *again, *again)


# Quiet times


def repair(*keys: bytes) -> Repair:
    return Repair(entries=tuple(map(entry, keys)))


WALK = (GiveWay(share=CALM_SHARE), None)
SAME = SnapshotPage(store=STORE, entries=(), cursor=stamp(5), more=False)


def test_in_quiet_times_stretches_are_compared_at_a_walk_and_gaps_repaired() -> None:
    first, second = (Stretch(until=until, count=2, digest=bytes(16)) for until in (b"b", b"m"))
    gap = SnapshotPage(store=STORE, entries=tuple(map(entry, (b"c", b"d", b"e"))), cursor=stamp(7), more=False)
    assert calmly(
        compare(ME, A),
        look(None, first),
        (snapshot(None, first), SAME),
        WALK,
        look(b"b", second),
        (snapshot(b"b", second), gap),
        (repair(b"c", b"d", b"e"), 1),
        WALK,
        look(b"m"),
        (snapshot(b"m"), SAME),
        WALK,
        (keep(cursor=stamp(5)), 0),
    )


def test_who_is_far_behind_hurries() -> None:
    page = SnapshotPage(store=STORE, entries=(entry(b"a"), entry(b"b")), cursor=stamp(5), more=True)
    assert calmly(
        compare(ME, A),
        look(),
        (snapshot(), page),
        (repair(b"a", b"b"), 2),
        REST,
        (snapshot(b"b"), END_OF_SNAPSHOT),
        (repair(b"c"), 0),
        WALK,
        (keep(cursor=stamp(5)), 0),
    )


def test_a_comparison_that_is_cut_short_changes_nothing() -> None:
    assert not calmly(compare(ME, A), look(), (snapshot(), SILENCE))
    assert not calmly(compare(ME, A), look(), (snapshot(), CursorTruncated()))


def test_a_comparison_ends_when_members_change() -> None:
    assert not play(compare(ME, A), (Changing(), True))
    page = SnapshotPage(store=STORE, entries=(entry(b"a"),), cursor=stamp(5), more=True)
    assert not play(
        compare(ME, A), (Changing(), False), look(), (snapshot(), page), (repair(b"a"), 0), WALK, (Changing(), True)
    )


def test_a_copy_ends_with_its_epoch() -> None:
    """What it has brought is kept, and what comes next may be a joint epoch."""
    page = SnapshotPage(store=STORE, entries=(entry(b"a"),), cursor=stamp(5), more=True)
    assert not play(
        learning(),
        (LOAD, None),
        (CurrentConfig(), CHANGING),
        look(),
        (snapshot(), page),
        (keep(b"a", cursor=stamp(5), after=b"a", copied=False), 0),
        REST,
        (CurrentConfig(), JOINT),
    )


# The joint epoch


def handiest(reader: int, *late: int) -> list[tuple[Effect, object]]:
    others = [source for source in sources_in_order((A, B, C), reader) if source != reader]
    return [(LoadProgress(source=source), None if source in late else COPIED) for source in others]


def joined(flow: Flow[T], *script: tuple[Effect, object]) -> T:
    return play(flow, *script, config=JOINT)


def unsettled(source: int, after: bytes | None = None) -> Ask:
    return Ask(to=source, request=UnsettledRead(epoch=7, after=after))


def nothing_new(source: int, reader: int = D) -> tuple[tuple[LoadProgress, object], tuple[Ask, object]]:
    progress = Progress(store=STORE, cursor=stamp(5), copied=True)
    return (LoadProgress(source=source), progress), (
        Ask(to=source, request=ChangelogRead(reader=reader, store=STORE, after=stamp(5))),
        TAIL,
    )


QUIET = UnsettledPage(keys=(), more=False)
IN_FLIGHT = (Unsettled(key=b"k", version=1), Unsettled(key=b"l", version=4))


def test_a_newcomer_is_synced_with_a_slow_quorum_of_the_old_members_and_not_with_one() -> None:
    assert joined(
        sync(JOINT, D),
        *handiest(D),
        (unsettled(A), UnsettledPage(keys=IN_FLIGHT, more=True)),
        (Settle(keys=IN_FLIGHT), True),
        (unsettled(A, b"l"), QUIET),
        *nothing_new(A),
        (unsettled(B), QUIET),
        *nothing_new(B),
        (Synced(epoch=7), None),
    )


def test_sources_that_are_copied_go_first() -> None:
    assert joined(
        sync(JOINT, D),
        *handiest(D, A),
        (unsettled(B), QUIET),
        *nothing_new(B),
        (unsettled(C), QUIET),
        *nothing_new(C),
        (Synced(epoch=7), None),
    )


def test_an_old_member_that_stays_settles_its_own_votes_and_needs_one_other() -> None:
    assert joined(
        sync(JOINT, C),
        *handiest(C),
        (unsettled(C), UnsettledPage(keys=IN_FLIGHT[:1], more=False)),
        (Settle(keys=IN_FLIGHT[:1]), True),
        (unsettled(A), QUIET),
        *nothing_new(A, C),
        (Synced(epoch=7), None),
    )


def test_a_source_that_is_silent_or_behind_is_skipped_and_sent_the_configuration() -> None:
    assert not joined(
        sync(JOINT, D),
        *handiest(D),
        (unsettled(A), SILENCE),
        (unsettled(B), EpochAhead(epoch=6)),
        (tell((B,), JOINT), None),
        (unsettled(C), QUIET),
        *nothing_new(C),
    )


def test_what_cannot_be_settled_leaves_its_source_out() -> None:
    assert not joined(
        sync(JOINT, D),
        *handiest(D),
        (unsettled(A), UnsettledPage(keys=IN_FLIGHT, more=False)),
        (Settle(keys=IN_FLIGHT), False),
        (unsettled(B), SILENCE),
        (unsettled(C), SILENCE),
    )


def test_an_epoch_that_is_over_is_left() -> None:
    newer = first_epoch((A, B))
    assert not joined(sync(JOINT, D), *handiest(D), (unsettled(A), StaleEpoch(config=newer)), (adopt(newer), None))


# A pass


STABLE = ClusterConfig(epoch=8, coordinator_id=A, replicas=tuple(ReplicaInfo(id=i) for i in (A, B)))


def compared(reader: int) -> tuple[tuple[Effect, object], ...]:
    request = SnapshotRead(reader=reader, store=0, after=None, held=NOTHING)
    return look(), (Ask(to=A, request=request), SAME), WALK, (keep(cursor=stamp(5)), 0)


def test_in_quiet_times_a_voter_compares_with_the_others_and_settles_its_own_votes_once_an_epoch() -> None:
    own = Ask(to=B, request=UnsettledRead(epoch=8, after=None))
    assert calmly(learn(B, 7), (CurrentConfig(), STABLE), (own, QUIET), *compared(B)) == 8
    assert calmly(learn(B, 8), (CurrentConfig(), STABLE), *compared(B)) == 8


def test_while_members_change_all_follow_the_voters() -> None:
    learner = ReplicaInfo(id=C, status=ReplicaStatus.LEARNING)
    changing = ClusterConfig(epoch=8, coordinator_id=A, replicas=(ReplicaInfo(id=A), learner))
    script = (*nothing_new(A, C), (Followed(source=A), None))
    assert play(learn(C, 0), (CurrentConfig(), changing), *script, config=changing) == 0


def test_a_slow_quorum_is_followed_and_the_next_instead_of_one_that_is_silent() -> None:
    voters = tuple(ReplicaInfo(id=i) for i in (A, B, C))
    learner = ReplicaInfo(id=D, status=ReplicaStatus.LEARNING)
    changing = ClusterConfig(epoch=8, coordinator_id=A, replicas=(*voters, learner))
    first, second, third = sources_in_order((A, B, C), D)
    script = [step for i in (first, second) for step in (*nothing_new(i), (Followed(source=i), None))]
    assert play(learn(D, 0), (CurrentConfig(), changing), *script, config=changing) == 0
    begin, (question, _) = nothing_new(first)
    script = [step for i in (second, third) for step in (*nothing_new(i), (Followed(source=i), None))]
    silent = (begin, (question, Failed(reason="timeout")))
    assert play(learn(D, 0), (CurrentConfig(), changing), *silent, *script, config=changing) == 0


def test_who_is_wanted_no_longer_is_a_change_from_the_first_moment() -> None:
    """So that all members are up to date when the joint epoch begins."""
    request = ChangeRequest(members=(Member(id=A),))
    assert is_changing(STABLE, request)
    assert not is_changing(STABLE, ChangeRequest(members=(Member(id=A), Member(id=B))))
    assert not is_changing(STABLE, None)
    assert is_changing(CHANGING, None)
    assert is_changing(JOINT, None)


def test_two_newcomers_begin_with_different_sources() -> None:
    assert [sources_in_order((1, 2, 3), me)[0] for me in (1, 2, 3, 4, 5)] == [1, 2, 3, 1, 2]
    assert sources_in_order((1, 2, 3), 2) == [2, 3, 1]
    assert sources_in_order((1, 4), 4) == [4, 1]


def test_who_leaves_or_is_gone_copies_nothing() -> None:
    assert play(learn(B, 0), (CurrentConfig(), JOINT)) == 0
    assert play(learn(9, 0), (CurrentConfig(), STABLE)) == 0
