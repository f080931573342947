"""A newcomer's pass over the ordered engine's values: what it asks for, in turn."""

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.instances import NOTHING, InstanceId, OrderedCommit
from epoxy.model.members import (
    MAX_STRETCHES,
    Kept,
    KeptId,
    KeptPage,
    KeptRead,
    Pair,
    Stretch,
    Unfinished,
    ValuesPage,
    ValuesRead,
)
from epoxy.model.messages import EpochAhead, Failed, StaleEpoch
from epoxy.protocol.members.effects import (
    Ask,
    CurrentConfig,
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
from epoxy.protocol.members.learner import FOLLOWING_SHARE, LEARNING_SHARE
from epoxy.protocol.members.mirror import LEARNING_STRETCHES, is_learning, mirror, nearest_sources
from tests.protocol.members.bench import play

ME, NEXT = 4, 1
SOURCES = (3, 1, 2)
OLD = tuple(ReplicaInfo(id=i) for i in (1, 2, 3))
LEARNING = ClusterConfig(epoch=5, coordinator_id=1, replicas=(*OLD, ReplicaInfo(id=ME, status=ReplicaStatus.LEARNING)))
JOINT = ClusterConfig(epoch=6, coordinator_id=1, replicas=(*OLD, ReplicaInfo(id=ME)), previous=(1, 2, 3))

A, C = (Stretch(until=until, count=1, digest=bytes(16)) for until in (b"a", None))
SAME = ValuesPage(differing=(), pairs=(), through=None)
DECIDED = Kept(term=0, commit=OrderedCommit(id=InstanceId(1, 7), command=None, deps=NOTHING))
ASIDES: dict[type, object] = {CurrentConfig: JOINT}


def read(held: tuple[Stretch, ...], *, epoch: int = 0, after: bytes | None = None) -> ValuesRead:
    return ValuesRead(epoch=epoch, after=after, held=held)


def test_who_learns_takes_a_share_of_its_time_and_tells_when_it_has_the_bulk() -> None:
    source = SOURCES[0]
    page = ValuesPage(differing=(1,), pairs=(Pair(b"b", b"v"), Pair(b"bb", b"v"), Pair(b"bc", b"v")), through=b"bc")
    done = play(
        mirror(SOURCES, again=False),
        (LookThrough(after=None, stretches=LEARNING_STRETCHES), (A, C)),
        (Ask(to=source, request=read((A, C))), page),
        (Replace(epoch=5, spans=(Span(b"a", b"bc"),), pairs=page.pairs), 1),
        (GiveWay(share=LEARNING_SHARE), None),
        (LookThrough(after=b"bc", stretches=LEARNING_STRETCHES), (C,)),
        (Ask(to=source, request=read((C,), after=b"bc")), SAME),
        (Mirrored(), None),
        asides={CurrentConfig: LEARNING},
    )
    assert done


def test_who_gets_nothing_but_news_asks_for_more_without_looking() -> None:
    source = SOURCES[0]
    page = ValuesPage(differing=(0,), pairs=(Pair(b"a", b"v"), Pair(b"b", b"v")), through=b"b")
    last = ValuesPage(differing=(0,), pairs=(Pair(b"c", b"v"),), through=None)
    play(
        mirror(SOURCES, again=True),
        (LookThrough(after=None, stretches=LEARNING_STRETCHES), (C,)),
        (Ask(to=source, request=read((C,))), page),
        (Replace(epoch=5, spans=(Span(None, b"b"),), pairs=page.pairs), 2),
        (GiveWay(share=FOLLOWING_SHARE), None),
        (Ask(to=source, request=read((), after=b"b")), last),
        (Replace(epoch=5, spans=(Span(b"b", None),), pairs=last.pairs), 1),
        (Mirrored(), None),
        asides={CurrentConfig: LEARNING},
    )


def test_in_a_joint_epoch_one_who_is_not_at_the_end_is_left_for_the_next_who_gives_all() -> None:
    """Values, then what it keeps, in pages; then that is what the next term begins with."""
    after = KeptId(term=0, id=InstanceId(1, 7))
    done = play(
        mirror(SOURCES, again=False),
        (LookThrough(after=None, stretches=MAX_STRETCHES), (C,)),
        (Ask(to=SOURCES[0], request=read((C,), epoch=6)), Unfinished()),
        (LookThrough(after=None, stretches=MAX_STRETCHES), (C,)),
        (Ask(to=SOURCES[1], request=read((C,), epoch=6)), SAME),
        (Ask(to=SOURCES[1], request=KeptRead(epoch=6, after=None)), KeptPage(kept=(DECIDED,), more=True)),
        (Preserve(epoch=6, kept=(DECIDED,)), True),
        (Ask(to=SOURCES[1], request=KeptRead(epoch=6, after=after)), KeptPage(kept=(), more=False)),
        (Install(epoch=6), True),
        asides=ASIDES,
    )
    assert done


def test_nothing_is_put_in_place_once_the_epoch_is_over() -> None:
    source = SOURCES[0]
    page = ValuesPage(differing=(0,), pairs=(Pair(b"a", b"v"),), through=None)
    over = ClusterConfig(epoch=7, coordinator_id=1, replicas=JOINT.replicas)
    done = play(
        mirror(SOURCES, again=False),
        (CurrentConfig(), JOINT),
        (CurrentConfig(), JOINT),
        (LookThrough(after=None, stretches=MAX_STRETCHES), (C,)),
        (Ask(to=source, request=read((C,), epoch=6)), page),
        (Replace(epoch=6, spans=(Span(None, None),), pairs=page.pairs), None),
        asides={CurrentConfig: over},
    )
    assert not done


def test_who_lives_in_another_epoch_is_told_or_tells() -> None:
    newer = first_epoch((1, 2, 3))
    look = (LookThrough(after=None, stretches=MAX_STRETCHES), (C,))
    done = play(
        mirror(SOURCES, again=False),
        look,
        (Ask(to=SOURCES[0], request=read((C,), epoch=6)), EpochAhead(epoch=5)),
        (tell((SOURCES[0],), JOINT), None),
        look,
        (Ask(to=SOURCES[1], request=read((C,), epoch=6)), SAME),
        (Ask(to=SOURCES[1], request=KeptRead(epoch=6, after=None)), StaleEpoch(config=newer)),
        (adopt(newer), None),
        look,
        (Ask(to=SOURCES[2], request=read((C,), epoch=6)), Failed(reason="timeout")),
        asides=ASIDES,
    )
    assert not done


def test_only_those_who_learn_are_learning() -> None:
    assert is_learning(LEARNING, ME)
    assert not is_learning(LEARNING, NEXT)
    assert not is_learning(JOINT, ME)
    assert not is_learning(LEARNING, 9)


def test_who_is_near_and_answers_is_asked_first_and_the_silent_are_not_waited_for() -> None:
    assert nearest_sources(JOINT, ME, (2, ME, 9, 1)) == [2, 1]
    assert nearest_sources(JOINT, ME, ()) == [1, 2, 3]
    assert nearest_sources(JOINT, 1, ()) == [2, 3]
