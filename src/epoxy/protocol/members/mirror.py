"""How a newcomer copies the values of the ordered engine.

Most of them are copied from a voter while the newcomer learns, without waiting for what is executed there meanwhile. In
the joint epoch no transactions are executed: the term has ended, and a replica that has executed everything up to its
end holds the values that the next term begins with. A second pass copies the differences, and the decided instances the
source still keeps, so that the newcomer can serve members that were away. See docs/protocol/ordered.md.
"""

from collections.abc import Sequence

from epoxy.model.cluster import ClusterConfig, ReplicaStatus
from epoxy.model.members import (
    MAX_PAGE_ROWS,
    MAX_STRETCHES,
    STRETCH_ROWS,
    KeptId,
    KeptPage,
    KeptRead,
    Stretch,
    ValuesPage,
    ValuesRead,
)
from epoxy.model.messages import EpochAhead, StaleEpoch
from epoxy.protocol.members.effects import (
    Ask,
    CurrentConfig,
    Flow,
    GiveWay,
    Install,
    LookThrough,
    Mirrored,
    Preserve,
    Replace,
    Span,
    adopt,
    tell,
)
from epoxy.protocol.members.learner import FOLLOWING_SHARE, LEARNING_SHARE, WHOLE_SHARE, is_current

LEARNING_STRETCHES = MAX_PAGE_ROWS // STRETCH_ROWS


def mirror(sources: Sequence[int], *, again: bool) -> Flow[bool]:
    """One pass of a newcomer over its sources, until one of them is copied whole; whether one was. `again`: most values
    should be here already."""
    config: ClusterConfig = yield CurrentConfig()
    share = WHOLE_SHARE if config.is_joint else FOLLOWING_SHARE if again else LEARNING_SHARE
    for source in sources:
        if not (yield from copy_values(config, source, share)):
            continue
        if not config.is_joint:
            yield Mirrored()
            return True
        if (yield from copy_kept(config, source)):
            return bool((yield Install(epoch=config.epoch)))
    return False


def nearest_sources(config: ClusterConfig, me: int, near: Sequence[int]) -> list[int]:
    """The members whose values may be copied: those within reach, the nearest first; all of them, if none is. In a
    joint epoch all transactions wait, so no time is lost on a member that does not answer."""
    members = [each for each in config.electorate if each != me]
    return [each for each in near if each in members] or members


def is_learning(config: ClusterConfig, me: int) -> bool:
    info = config.info(me)
    return info is not None and info.status is ReplicaStatus.LEARNING


def copy_values(config: ClusterConfig, source: int, share: float) -> Flow[bool]:
    """From the first key to the last. False: the source does not answer, has not ended its term yet, or the epoch is
    over."""
    epoch, stretches = (config.epoch, MAX_STRETCHES) if config.is_joint else (0, LEARNING_STRETCHES)
    after: bytes | None = None
    unsummarised = False
    while (yield from is_current(config)):
        held: tuple[Stretch, ...] = () if unsummarised else (yield LookThrough(after=after, stretches=stretches))
        page = yield Ask(to=source, request=ValuesRead(epoch=epoch, after=after, held=held))
        if not isinstance(page, ValuesPage):
            yield from reconcile_epoch(config, source, page)
            return False
        news: int | None = 0
        if page.differing:
            spans = differing_spans(after, held, page)
            news = yield Replace(epoch=config.epoch, spans=spans, pairs=page.pairs)
        if news is None or page.through is None:
            return news is not None
        unsummarised = 2 * news > len(page.pairs)
        after = page.through
        if share < WHOLE_SHARE:
            yield GiveWay(share=share)
    return False


def differing_spans(after: bytes | None, held: tuple[Stretch, ...], page: ValuesPage) -> tuple[Span, ...]:
    """The spans to replace, none of them beyond the end of the page: the source has more there."""
    ends = [stretch.until for stretch in held] or [None]
    begins = [after, *ends]
    return tuple(Span(begins[place], lower_end(ends[place], page.through)) for place in page.differing)


def lower_end(end: bytes | None, other: bytes | None) -> bytes | None:
    """The lower of two keys; None is beyond every key."""
    if end is None or other is None:
        return other if end is None else end
    return min(end, other)


def copy_kept(config: ClusterConfig, source: int) -> Flow[bool]:
    after: KeptId | None = None
    while True:
        page = yield Ask(to=source, request=KeptRead(epoch=config.epoch, after=after))
        if not isinstance(page, KeptPage):
            yield from reconcile_epoch(config, source, page)
            return False
        if page.kept and not (yield Preserve(epoch=config.epoch, kept=page.kept)):
            return False
        if not page.more:
            return True
        after = KeptId(term=page.kept[-1].term, id=page.kept[-1].commit.id)


def reconcile_epoch(config: ClusterConfig, source: int, reply: object) -> Flow[None]:
    """Adopt or send the newer configuration, if the source is in another epoch."""
    if isinstance(reply, StaleEpoch):
        yield adopt(reply.config)
    elif isinstance(reply, EpochAhead):
        yield tell((source,), config)
