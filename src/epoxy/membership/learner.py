"""How a replica comes to hold what the others hold.

`copy` follows one source: a snapshot of its keys, page by page, then its changelog from where it stood when the
snapshot began, up to the tail. How far it has come is kept with what it brought, so a crash costs one page.

`sync` is what a member of the new side does in a joint epoch. One source is not enough for that: a Commit may have
missed it, and a value that was chosen may be committed nowhere yet. See docs/protocol/membership.md.
"""

from epoxy.membership.effects import Adopt, Ask, Config, Flow, Keep, LoadProgress, Settle, Synced, Tell
from epoxy.model.cluster import ClusterConfig, ReplicaStatus
from epoxy.model.membership import (
    ChangelogPage,
    ChangelogRead,
    CursorTruncated,
    Progress,
    SnapshotPage,
    SnapshotRead,
    UnsettledPage,
    UnsettledRead,
)
from epoxy.model.messages import EpochAhead, StaleEpoch

MAX_SNAPSHOTS = 3
"""Snapshots in one go. A source that throws its changelog away faster than its keys can be copied is left for later."""


def learn(me: int, settled_epoch: int) -> Flow[int]:
    """One pass: sync if the epoch is joint and I am of the new side, otherwise copy from every voter that answers, and
    once in each epoch, settle my own votes of the epochs before: whoever they were for may have left. Returns the last
    epoch for which that is done."""
    config: ClusterConfig = yield Config()
    info = config.info(me)
    if info is None or info.status is ReplicaStatus.LEAVING:
        return settled_epoch
    if config.is_joint:
        yield from sync(config, me)
        return settled_epoch
    if me in config.voters and settled_epoch < config.epoch and (yield from settle(config, me)):
        settled_epoch = config.epoch
    for source in in_turn(config.electorate, me):
        if source != me:
            yield from copy(source)
    return settled_epoch


def copy(source: int) -> Flow[bool]:
    """Whether all that the source had learned, up to some moment after this began, is held here."""
    progress: Progress | None = yield LoadProgress(source=source)
    for _ in range(MAX_SNAPSHOTS):
        if progress is None or not progress.copied:
            progress = yield from copy_snapshot(source, progress)
            if progress is None:
                return False
        followed = yield from copy_changelog(source, progress)
        if followed is not None:
            return followed
        progress = None
    return False


def copy_snapshot(source: int, progress: Progress | None) -> Flow[Progress | None]:
    """None: the source fell silent; what was brought so far is kept."""
    while progress is None or not progress.copied:
        page = yield Ask(to=source, request=SnapshotRead(after=progress.after if progress else None))
        if not isinstance(page, SnapshotPage):
            return None
        progress = after_page(progress, page)
        yield Keep(source=source, entries=page.entries, progress=progress)
    return progress


def after_page(progress: Progress | None, page: SnapshotPage) -> Progress:
    """What is learned there while the snapshot is on its way stands in the changelog beyond the first page's cursor."""
    cursor = progress.cursor if progress is not None else page.cursor
    return Progress(cursor=cursor, after=page.entries[-1].key if page.more else None, copied=not page.more)


def copy_changelog(source: int, progress: Progress) -> Flow[bool | None]:
    """Up to the tail. None: the rows are gone, and only a snapshot helps."""
    cursor, more = progress.cursor, True
    while more:
        page = yield Ask(to=source, request=ChangelogRead(after=cursor))
        if isinstance(page, CursorTruncated):
            yield Keep(source=source, entries=(), progress=None)
            return None
        if not isinstance(page, ChangelogPage):
            return False
        cursor, more = page.cursor, page.more
        if page.entries:
            yield Keep(source=source, entries=page.entries, progress=Progress(cursor=cursor, copied=True))
    return True


def sync(config: ClusterConfig, me: int) -> Flow[bool]:
    """Settle and copy what a slow quorum of the old members holds, each of them after it has adopted the joint epoch.
    In this order: what is settled there while its list is read is in its changelog by the time that is read."""
    done: set[int] = set()
    for source in in_turn(config.electorate, me):
        settled = yield from settle(config, source)
        if settled is None:
            return False
        if settled and (source == me or (yield from copy(source))):
            done.add(source)
        if is_enough(config, done):
            yield Synced(epoch=config.epoch)
            return True
    return False


def in_turn(electorate: tuple[int, ...], me: int) -> list[int]:
    """Myself first, which costs least, then round the circle from me: not everybody asks the same one first."""
    return sorted(electorate, key=lambda replica: (replica < me, replica))


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
