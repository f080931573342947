"""How a replica copies what the other replicas hold.

`copy` follows one source: a snapshot of its keys, page by page, then its changelog from where it was when the snapshot
began, up to the tail. Progress is stored together with the rows, so a crash costs one page. A reader that already holds
keys sends a digest of them, and gets a page only if the source's digest differs.

`compare` is anti-entropy: without changelog, slowly, while no members change. What differs is repaired.

`sync` is for members of the new side in a joint epoch. One source is not enough there: it may have missed a Commit, and
a chosen value may be committed nowhere yet. See docs/protocol/membership.md.
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
    adopt,
    tell,
)

MAX_SNAPSHOTS = 3
"""Snapshots in one pass. A source that truncates its changelog faster than its keys are copied is left for later."""

LEARNING_SHARE = 0.5
"""Of a learner's time. The other half is for its clients, and while it pauses, so does its source, which spends less on
a page than the learner does."""

FOLLOWING_SHARE = 0.1
"""Of a voter's time. It holds nearly everything already and has clients; newcomers take longer anyway."""

CALM_SHARE = 0.01
"""Of a replica's time while no members change. It serves about as many pages as it asks for: 2 % in all."""

WHOLE_SHARE = 1.0
"""In a joint epoch: there is no fast round and no transaction before it ends."""


def learn(me: int, settled_epoch: int) -> Flow[int]:
    """One pass: sync in a joint epoch; otherwise copy from a slow quorum of the voters while members change, or compare
    with all of them. Once in each epoch, a voter also settles its own votes of earlier epochs, because their proposers
    may have left. Returns the last epoch for which that is done."""
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


def is_changing(config: ClusterConfig, request: ChangeRequest | None) -> bool:
    """Whether members change, or a change is requested."""
    under_way = config.is_joint or len(config.active) < len(config.replicas)
    return under_way or (request is not None and tuple(member.id for member in request.members) != config.active)


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
    """Pages of a source, to the end of its changelog. False: the source does not answer, or the epoch is over. None:
    the rows to go on from are gone."""
    unsummarised = False
    while (yield from is_current(config)):
        request = yield from next_page(me, progress, unsummarised)
        page = yield Ask(to=source, request=request)
        if isinstance(page, CursorTruncated):
            yield Keep(source=source, entries=(), progress=None)
            return None
        if not isinstance(page, SnapshotPage | ChangelogPage):
            return False
        progress = after_page(progress, request, page)
        if page.entries or isinstance(page, SnapshotPage):
            news: int = yield Keep(source=source, entries=page.entries, progress=progress)
            unsummarised = is_mostly_new(news, page)
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
    """Whether everything the source holds is held here; ends when members change. Progress is stored only at the end,
    so that a change of members need not begin with a snapshot: to compare equal keys again costs little."""
    progress: Progress | None = None
    unsummarised = False
    while progress is None or not progress.copied:
        if (yield Changing()):
            return False
        request = yield from next_page(me, progress, unsummarised)
        page = yield Ask(to=source, request=request)
        if not isinstance(page, SnapshotPage):
            return False
        news: int = (yield Repair(entries=page.entries)) if page.entries else 0
        unsummarised = is_mostly_new(news, page)
        progress = after_page(progress, request, page)
        yield GiveWay(share=LEARNING_SHARE if unsummarised else CALM_SHARE)
    yield Keep(source=source, entries=(), progress=progress)
    return True


def is_mostly_new(news: int, page: SnapshotPage | ChangelogPage) -> bool:
    """Most of a page was new: this replica is far behind, after an outage for example. It need not summarise the next
    stretch, and should not be slow. Commits still on their way make up a few rows of a page."""
    return bool(page.entries) and 2 * news > len(page.entries)


def next_page(me: int, progress: Progress | None, unsummarised: bool) -> Flow[SnapshotRead | ChangelogRead]:
    if progress is not None and progress.copied:
        return ChangelogRead(reader=me, store=progress.store, after=progress.cursor)
    after = progress.after if progress is not None else None
    held: Stretch = NOTHING if unsummarised else (yield Summarise(after=after))
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
    """What the source learns while its snapshot is copied is in its changelog beyond the first page's cursor."""
    return progress.cursor if progress is not None else page.cursor


def sync(config: ClusterConfig, me: int) -> Flow[bool]:
    """Settle and copy what a slow quorum of the old members holds, each after it has adopted the joint epoch. Settling
    comes first, so that its decisions are in the source's changelog by the time that is read."""
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
    """The old members, first those whose snapshot is copied already: the others take long."""
    late: list[int] = []
    for source in (order := sources_in_order(config.electorate, me)):
        if source != me:
            progress: Progress | None = yield LoadProgress(source=source)
            if progress is None or not progress.copied:
                late.append(source)
    return [source for source in order if source not in late] + late


def sources_in_order(electorate: tuple[int, ...], me: int) -> list[int]:
    """This replica first, which costs least, then the others in a circle from its id, so that replicas do not all ask
    the same source first, not even two newcomers of neighbouring ids."""
    return sorted(electorate, key=lambda replica: (replica != me, (replica - me) % len(electorate), replica))


def is_enough(config: ClusterConfig, done: set[int]) -> bool:
    return len(done) >= config.quorums.slow


def settle(config: ClusterConfig, source: int) -> Flow[bool | None]:
    """Get every vote decided that the source gave before this epoch and knows no decision of. None: the epoch is
    over."""
    after: bytes | None = None
    while True:
        page = yield Ask(to=source, request=UnsettledRead(epoch=config.epoch, after=after))
        if isinstance(page, StaleEpoch):
            yield adopt(page.config)
            return None
        if isinstance(page, EpochAhead):
            yield tell((source,), config)
            return False
        if not isinstance(page, UnsettledPage):
            return False
        if page.keys and not (yield Settle(keys=page.keys)):
            return False
        if not page.more:
            return True
        after = page.keys[-1].key
