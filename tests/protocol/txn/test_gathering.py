"""Which keys are held back after a command, for whom, and until when."""

from epoxy.model.instances import MAX_BATCH, Command, Deps, Instance, InstanceId, Phase
from epoxy.model.transactions import Get, Put, Txn
from epoxy.protocol.txn.gathering import KeyGathering, contended_keys, expected_count, rival_before, rivals_of
from epoxy.protocol.txn.log import InstanceLog

KEY = frozenset([b"k"])


def writes(*keys: bytes) -> Txn:
    return Txn(then=tuple(Put(key=key, value=b"v") for key in keys))


def held(replica: int, slot: int, *known: InstanceId, key: bytes = b"k") -> Instance:
    """A command; `known` are the dependencies its coordinator sent."""
    deps = Deps(also=tuple(sorted(known)))
    return Instance(
        id=InstanceId(replica, slot),
        phase=Phase.PREACCEPTED,
        command=Command(txns=(writes(key),)),
        deps=deps,
        initial=deps,
    )


def log_of(*instances: Instance) -> InstanceLog:
    log = InstanceLog()
    for instance in instances:
        log.put(instance)
    return log


def test_a_key_is_contended_if_two_transactions_touch_it_and_the_command_writes_it() -> None:
    look = Txn(then=(Get(key=b"r"),))
    command = Command(txns=(writes(b"a"), writes(b"a", b"b"), look, look, writes(b"c")))
    assert contended_keys(command, []) == {b"a"}, "two readers of r do not wait for each other"
    assert contended_keys(command, [writes(b"b"), writes(b"d"), writes(b"d")]) == {b"a", b"b"}


def test_as_many_are_expected_as_come_again_and_fit_into_one_command() -> None:
    command = Command(txns=(*[writes(b"k")] * 5, writes(b"other")))
    assert expected_count(command, [], KEY) == 5
    assert expected_count(command, [writes(b"k")] * (MAX_BATCH - 3), KEY) == 3
    assert expected_count(command, [writes(b"k")] * MAX_BATCH, KEY) == 0


def test_a_gathering_is_over_when_those_expected_wait() -> None:
    gathering = KeyGathering(InstanceId(1, 1), KEY, 2, None)
    for txn in (writes(b"k"), writes(b"other")):
        gathering.count(txn)
    assert not gathering.is_over
    gathering.count(writes(b"k", b"other"))
    assert gathering.is_over


def test_a_turn_comes_with_a_command_of_the_rival_that_knows_the_last_one() -> None:
    mine = InstanceId(2, 1)
    gathering = KeyGathering(mine, KEY, 0, 1)
    for other in (held(1, 1), held(3, 1, mine), held(1, 2, mine, key=b"other")):
        gathering.notice(other)
    assert not gathering.is_over
    gathering.notice(held(1, 2, mine))
    assert gathering.is_over


def test_rivals_wait_for_the_nearest_of_lower_id() -> None:
    a, b, c = InstanceId(1, 1), InstanceId(2, 1), InstanceId(3, 1)
    log = log_of(held(1, 1), held(2, 1, a), held(3, 1, a, b))
    assert rival_before(held(3, 1), log) == log.get(b)
    assert rival_before(held(2, 1), log) == log.get(a)
    assert rival_before(held(1, 2, c), log) == log.get(c), "after the highest, the lowest"


def test_the_lowest_begins_if_all_proposed_at_the_same_moment() -> None:
    log = log_of(held(1, 1), held(2, 1))
    assert rival_before(held(1, 1), log) is None
    assert rival_before(held(2, 1), log) == log.get(InstanceId(1, 1))


def test_a_rival_that_has_had_its_turn_is_not_waited_for() -> None:
    a, b = InstanceId(1, 1), InstanceId(2, 1)
    assert rival_before(held(2, 1, a), log_of(held(1, 1), held(1, 2, b), held(2, 1, a))) is None
    assert rival_before(held(1, 1), log_of(held(1, 1), held(2, 1, a))) is None


def test_a_rival_has_proposed_something_since_the_last_command_but_one() -> None:
    before = held(2, 1, InstanceId(1, 1))
    idle = log_of(held(1, 1), before, held(2, 2, before.id))
    assert rivals_of(idle.get(InstanceId(2, 2)), idle) == []
    idle.put(held(1, 2))
    assert rivals_of(idle.get(InstanceId(2, 2)), idle) == [InstanceId(1, 2)]
    elsewhere = log_of(held(1, 1, key=b"other"), held(2, 1))
    assert rivals_of(elsewhere.get(InstanceId(2, 1)), elsewhere) == []
