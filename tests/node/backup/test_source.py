"""What a member answers to one that makes a backup."""

from functools import partial
from itertools import count

from epoxy.codec.tuple import pack
from epoxy.model.ballot import fast_ballot
from epoxy.model.cluster import ClusterConfig, first_epoch
from epoxy.model.members import (
    ActorRow,
    ActorsPage,
    FrontierRead,
    HeldPage,
    HeldRead,
    MemberReply,
    MemberRequest,
    Unsettled,
    UnsettledPage,
    VotesRead,
)
from epoxy.model.messages import EpochAhead, Failed, StaleEpoch
from epoxy.model.records import ChangelogEntry
from epoxy.node.backup.source import BackupSource, actors_page
from epoxy.node.keys.replica import Replica
from epoxy.protocol.members.digest import NOTHING
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore
from tests.node.bench import HandClock
from tests.protocol.keys.harness import KEY, A, B, C, accept, prop

CONFIG = first_epoch((A, B, C))


class Place:
    def __init__(self, config: ClusterConfig = CONFIG) -> None:
        self.store, self.clock = MemoryStore(), HandClock()
        self.replica = Replica(A, self.store, config, print)
        space = MemberSpace(self.replica.keyspace, A)
        self.source = BackupSource(self.replica, self.store, space, None, self.clock)
        work = count()
        self.source.cpu_ms = lambda: float(next(work))

    def ask(self, request: MemberRequest) -> MemberReply:
        replies: list[MemberReply] = []
        self.source.answer(request, replies.append)  # type: ignore[arg-type]
        while not replies:
            self.clock.advance(1.0)
        return replies[0]


def test_votes_of_this_epoch_are_listed_too() -> None:
    place = Place()
    place.replica.handle((accept(prop(b"v", by=B), fast_ballot(B)),), lambda _: None)
    expected = UnsettledPage(keys=(Unsettled(key=KEY, version=1),), more=False)
    assert place.ask(VotesRead(epoch=1, after=None)) == expected
    assert isinstance(place.ask(VotesRead(epoch=2, after=None)), EpochAhead)
    later = Place(ClusterConfig(epoch=3, coordinator_id=A, replicas=CONFIG.replicas))
    assert isinstance(later.ask(VotesRead(epoch=1, after=None)), StaleEpoch)


def test_without_the_ordered_engine_there_is_no_frontier() -> None:
    assert isinstance(Place().ask(FrontierRead()), Failed)


def test_a_comparison_takes_several_turns_and_ends_with_a_full_page() -> None:
    source, reader = Place(), Place()
    for number in range(40):
        for place in (source, reader):
            place.replica.learn(b"%02d" % number, prop(b"v"))
    source.replica.learn(b"20x", prop(b"v"))
    for place in (source, reader):
        place.source.held.stretch_rows = 1
    view = reader.store.newest()
    held = reader.source.held.stretches(view, None, 64)
    page = source.ask(HeldRead(after=None, held=held))
    assert isinstance(page, HeldPage)
    assert [entry.key for entry in page.entries] == [b"20x", b"21"]
    assert page.through is None
    source.source.held.page_rows = 1
    page = source.ask(HeldRead(after=None, held=held))
    assert isinstance(page, HeldPage)
    assert (page.through, len(page.entries)) == (b"20x", 1), "the rest is asked for after these are learned"
    assert source.clock.now_ms() > 0, "it rested between slices"
    assert source.ask(HeldRead(after=b"38", held=(NOTHING,))) == HeldPage(
        entries=(ChangelogEntry(key=b"39", committed=prop(b"v")),), through=b"39"
    )


def test_rows_of_actors_come_in_pages_and_no_others() -> None:
    store = MemoryStore()
    rows: dict[bytes, bytes | None] = {pack((4, 0, b"%04d" % number)): b"v" for number in range(1025)}
    store.put({**rows, pack((3, b"an envoy")): b"v", pack((5,)): b"v"}, None)
    first = actors_page(store.newest(), None)
    assert (len(first.rows), first.more) == (1024, True)
    last = actors_page(store.newest(), first.rows[-1].row)
    assert last == ActorsPage(rows=(ActorRow(pack((4, 0, b"1024")), b"v"),), more=False)
    assert partial(actors_page, store.newest())(last.rows[-1].row) == ActorsPage(rows=(), more=False)
