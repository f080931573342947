"""How a replica comes to hold what the others hold.

`copy` follows one source: a snapshot of its keys, page by page, then its changelog from where it stood when the
snapshot began, up to the tail. How far it has come is kept with what it brought, so a crash costs one page. A reader
that holds keys already tells a digest of them, and is sent a page only if the source's is another.

`compare` is the same for quiet times: no changelog, and at a walk. What it finds is repaired.

`sync` is what a member of the new side does in a joint epoch. One source is not enough for that: a Commit may have
missed it, and a value that was chosen may be committed nowhere yet. See docs/protocol/membership.md.
"""

from epoxy.model.cluster import ClusterConfig, ReplicaStatus
from epoxy.model.members import (
    ChangelogPage,
    ChangelogRead,
    ChangeRequest,
    CursorTruncated,
    Progress,
    SnapshotPage,
    SnapshotRead,
    Stretch,
    UnsettledPage,
    UnsettledRead,
)
from epoxy.model.messages import EpochAhead, StaleEpoch
from epoxy.protocol.members.digest import NOTHING
from epoxy.protocol.members.effects import (
    Adopt,
    Ask,
    Changing,
    CurrentConfig,
    Flow,
    Followed,
    GiveWay,
    Keep,
    LoadProgress,
    Repair,
    Settle,
    Summarise,
    Synced,
    Tell,
)

MAX_SNAPSHOTS = 3
"""Snapshots in one go. A source that throws its changelog away faster than its keys can be copied is left for later."""

LEARNING_SHARE = 0.5
"""Of a learner's time. The other half is for those it serves, and while it rests, so does its source, which spends less
on a page than the learner does."""

FOLLOWING_SHARE = 0.1
"""... of one that votes. It holds nearly everything already and has clients; newcomers take longer anyway."""

CALM_SHARE = 0.01
"""Of a replica's time in quiet times. Each is also asked by the others, about as often as it asks: 2 % in all."""

WHOLE_SHARE = 1.0
"""While an epoch is joint, everybody waits for the end of it."""


def learn(me: int, settled_epoch: int) -> Flow[int]:
    """One pass: sync if the epoch is joint and I am of the new side, otherwise copy from a slow quorum of the voters
    while members change, or compare with all of them, and once in each epoch, settle my own votes of the epochs before:
    whoever they were for may have left. Returns the last epoch for which that is done."""
    config: ClusterConfig = yield CurrentConfig()
    info = config.info(me)
    if info is None or info.status is ReplicaStatus.LEAVING:
        return settled_epoch
    if config.is_joint:
        yield from sync(config, me)
        return settled_epoch
    if me in config.voters and settled_epoch < config.epoch and (yield from settle(config, me)):
        settled_epoch = config.epoch
    share = FOLLOWING_SHARE if me in config.voters else LEARNING_SHARE
    held = {me} & set(config.electorate)
    for source in sources_in_order(config.electorate, me):
        if source == me:
            continue
        if not (yield Changing()):
            yield from compare(me, source)
        elif len(held) < config.quorums.slow and (yield from copy(config, me, source, share)):
            held.add(source)
            yield Followed(source=source)
    return settled_epoch


def is_changing(config: ClusterConfig, wish: ChangeRequest | None) -> bool:
    """Or somebody wants it to."""
    under_way = config.is_joint or len(config.active) < len(config.replicas)
    return under_way or (wish is not None and tuple(member.id for member in wish.members) != config.active)


def copy(config: ClusterConfig, me: int, source: int, share: float) -> Flow[bool]:
    """Whether all that the source had learned, up to some moment after this began, is held here. Left when the epoch
    changes: then something else may be more urgent, and what was brought so far is kept."""
    progress: Progress | None = yield LoadProgress(source=source)
    for _ in range(MAX_SNAPSHOTS):
        copied = yield from read_pages(config, me, source, progress, share)
        if copied is not None:
            return copied
        progress = None
    return False


def read_pages(
    config: ClusterConfig, me: int, source: int, progress: Progress | None, share: float
) -> Flow[bool | None]:
    """To the end of its changelog. False: the source fell silent, or the epoch is over. None: the place to go on from
    is gone."""
    blind = False
    while (yield from is_current(config)):
        request = yield from next_page(me, progress, blind)
        page = yield Ask(to=source, request=request)
        if isinstance(page, CursorTruncated):
            yield Keep(source=source, entries=(), progress=None)
            return None
        if not isinstance(page, SnapshotPage | ChangelogPage):
            return False
        progress = after_page(progress, request, page)
        if page.entries or isinstance(page, SnapshotPage):
            news: int = yield Keep(source=source, entries=page.entries, progress=progress)
            blind = is_mostly_new(news, page)
            if share < WHOLE_SHARE:
                yield GiveWay(share=share)
        if isinstance(page, ChangelogPage) and not page.more:
            return True
    return False


def is_current(config: ClusterConfig) -> Flow[bool]:
    """Whether the epoch is still this one."""
    now: ClusterConfig = yield CurrentConfig()
    return now.epoch == config.epoch


def compare(me: int, source: int) -> Flow[bool]:
    """Whether everything the source holds is held here; left when members change. Nothing is remembered on the way: to
    look at what is the same a second time costs little. At the end it is, so that a change of members need not begin
    with a snapshot."""
    progress: Progress | None = None
    blind = False
    while progress is None or not progress.copied:
        if (yield Changing()):
            return False
        request = yield from next_page(me, progress, blind)
        page = yield Ask(to=source, request=request)
        if not isinstance(page, SnapshotPage):
            return False
        news: int = (yield Repair(entries=page.entries)) if page.entries else 0
        blind = is_mostly_new(news, page)
        progress = after_page(progress, request, page)
        yield GiveWay(share=LEARNING_SHARE if blind else CALM_SHARE)
    yield Keep(source=source, entries=(), progress=progress)
    return True


def is_mostly_new(news: int, page: SnapshotPage | ChangelogPage) -> bool:
    """Most of a page was: this replica is far behind, by an outage say. It need not look at what it holds beyond that
    page, and it should hurry. Commits on their way to it are a few of a page."""
    return bool(page.entries) and 2 * news > len(page.entries)


def next_page(me: int, progress: Progress | None, blind: bool) -> Flow[SnapshotRead | ChangelogRead]:
    if progress is not None and progress.copied:
        return ChangelogRead(reader=me, store=progress.store, after=progress.cursor)
    after = progress.after if progress is not None else None
    held: Stretch = NOTHING if blind else (yield Summarise(after=after))
    return SnapshotRead(reader=me, store=progress.store if progress is not None else 0, after=after, held=held)


def after_page(
    progress: Progress | None, request: SnapshotRead | ChangelogRead, page: SnapshotPage | ChangelogPage
) -> Progress:
    if isinstance(page, SnapshotPage):
        assert isinstance(request, SnapshotRead)
        after = page.entries[-1].key if page.more else request.held.until
        return Progress(store=page.store, cursor=first_cursor(progress, page), after=after, copied=after is None)
    assert progress is not None, "a changelog is followed from somewhere"
    return Progress(store=progress.store, cursor=page.cursor, copied=True)


def first_cursor(progress: Progress | None, page: SnapshotPage) -> bytes:
    """What is learned there while the snapshot is on its way stands in the changelog beyond the first page's cursor."""
    return progress.cursor if progress is not None else page.cursor


def sync(config: ClusterConfig, me: int) -> Flow[bool]:
    """Settle and copy what a slow quorum of the old members holds, each of them after it has adopted the joint epoch.
    In this order: what is settled there while its list is read is in its changelog by the time that is read."""
    done: set[int] = set()
    for source in (yield from copied_first(config, me)):
        settled = yield from settle(config, source)
        if settled is None:
            return False
        if settled and (source == me or (yield from copy(config, me, source, WHOLE_SHARE))):
            done.add(source)
        if is_enough(config, done):
            yield Synced(epoch=config.epoch)
            return True
    return False


def copied_first(config: ClusterConfig, me: int) -> Flow[list[int]]:
    """The old members, first those whose snapshot is copied: the others would take long."""
    late: list[int] = []
    for source in (turns := sources_in_order(config.electorate, me)):
        if source != me:
            progress: Progress | None = yield LoadProgress(source=source)
            if progress is None or not progress.copied:
                late.append(source)
    return [source for source in turns if source not in late] + late


def sources_in_order(electorate: tuple[int, ...], me: int) -> list[int]:
    """Myself first, which costs least, then round the circle from me: not everybody asks the same one first, and two
    newcomers of neighbouring ids do not."""
    return sorted(electorate, key=lambda replica: (replica != me, (replica - me) % len(electorate), replica))


def is_enough(config: ClusterConfig, done: set[int]) -> bool:
    return len(done) >= config.quorums.slow


def settle(config: ClusterConfig, source: int) -> Flow[bool | None]:
    """Have every vote decided that the source gave before this epoch and knows no decision of. None: the epoch is
    over."""
    after: bytes | None = None
    while True:
        page = yield Ask(to=source, request=UnsettledRead(epoch=config.epoch, after=after))
        if isinstance(page, StaleEpoch):
            yield Adopt(config=page.config)
            return None
        if isinstance(page, EpochAhead):
            yield Tell(to=(source,), config=config)
            return False
        if not isinstance(page, UnsettledPage):
            return False
        if page.keys and not (yield Settle(keys=page.keys)):
            return False
        if not page.more:
            return True
        after = page.keys[-1].key
