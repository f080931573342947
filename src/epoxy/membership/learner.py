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
        copied = yield from read_on(source, progress)
        if copied is not None:
            return copied
        progress = None
    return False


def read_on(source: int, progress: Progress | None) -> Flow[bool | None]:
    """To the end of its changelog. False: the source fell silent, and what it brought so far is kept. None: the place
    to go on from is gone."""
    while True:
        page = yield Ask(to=source, request=next_page(progress))
        if isinstance(page, CursorTruncated):
            yield Keep(source=source, entries=(), progress=None)
            return None
        if not isinstance(page, SnapshotPage | ChangelogPage):
            return False
        progress = after_page(progress, page)
        if page.entries or isinstance(page, SnapshotPage):
            yield Keep(source=source, entries=page.entries, progress=progress)
        if isinstance(page, ChangelogPage) and not page.more:
            return True


def next_page(progress: Progress | None) -> SnapshotRead | ChangelogRead:
    if progress is None:
        return SnapshotRead(store=0, after=None)
    if not progress.copied:
        return SnapshotRead(store=progress.store, after=progress.after)
    return ChangelogRead(store=progress.store, after=progress.cursor)


def after_page(progress: Progress | None, page: SnapshotPage | ChangelogPage) -> Progress:
    if isinstance(page, SnapshotPage):
        after = page.entries[-1].key if page.more else None
        return Progress(store=page.store, cursor=first_cursor(progress, page), after=after, copied=not page.more)
    assert progress is not None, "a changelog is followed from somewhere"
    return Progress(store=progress.store, cursor=page.cursor, copied=True)


def first_cursor(progress: Progress | None, page: SnapshotPage) -> bytes:
    """What is learned there while the snapshot is on its way stands in the changelog beyond the first page's cursor."""
    return progress.cursor if progress is not None else page.cursor


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
