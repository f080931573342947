"""The rows of the ordered engine: what is written is what is read after a restart."""

from epoxy.model.ballot import Ballot
from epoxy.model.cluster import first_epoch
from epoxy.model.ordered import NOTHING, Deps, Instance, InstanceId, Phase
from epoxy.store.memory import MemoryStore
from epoxy.store.ordered import OrderedSpace
from tests.ordered.cluster import write

ONE, TWO = InstanceId(1, 1), InstanceId(1, 2)
SPACE = OrderedSpace(1)

INITIAL = Instance(id=ONE)
PREACCEPTED = Instance(id=ONE, phase=Phase.PREACCEPTED, command=write(), deps=Deps(also=(TWO,)), initial=NOTHING)
VOTED = Instance(
    id=ONE, phase=Phase.ACCEPTED, command=write(), deps=NOTHING, ballot=Ballot(2, 1), accepted=Ballot(2, 1)
)
NOTHING_DECIDED = Instance(id=TWO, phase=Phase.COMMITTED, nop=True, deps=NOTHING)


def kept(*steps: Instance) -> MemoryStore:
    store, before = MemoryStore(), Instance(id=steps[0].id)
    for after in steps:
        store.transact(lambda tx, before=before, after=after: SPACE.save(tx, before, after))  # type: ignore[misc]
        before = after
    return store


def test_instances_come_back() -> None:
    for steps in ((PREACCEPTED,), (PREACCEPTED, VOTED), (VOTED,), (NOTHING_DECIDED,)):
        log = SPACE.load(kept(*steps).newest())
        assert log.get(steps[-1].id) == steps[-1]
        assert log.highest == {1: steps[-1].id.slot}


def test_a_replica_that_only_joined_a_ballot_remembers_that() -> None:
    joined = Instance(id=ONE, ballot=Ballot(3, 2))
    assert SPACE.load(kept(joined).newest()).get(ONE) == joined


def test_what_was_executed_and_what_was_forgotten_come_back() -> None:
    store = kept(PREACCEPTED, Instance(id=ONE, phase=Phase.COMMITTED, command=write(), deps=NOTHING))
    for each in (ONE, TWO):
        store.transact(lambda tx, each=each: SPACE.mark_executed(tx, each))  # type: ignore[misc]
    log = SPACE.load(store.newest())
    assert (log.executed, log.forgotten) == ({1: 2}, {})
    store.transact(lambda tx: SPACE.forget(tx, [ONE]))
    log = SPACE.load(store.newest())
    assert (log.executed, log.forgotten, log.instances) == ({1: 2}, {1: 1}, {})


def test_replicas_and_coordinators_do_not_mix() -> None:
    store = MemoryStore()
    far = Instance(id=InstanceId(12, 300), phase=Phase.COMMITTED, nop=True, deps=NOTHING)
    store.transact(lambda tx: SPACE.save(tx, Instance(id=far.id), far))
    store.transact(lambda tx: SPACE.forget(tx, [InstanceId(1, 999)]))
    assert SPACE.load(store.newest()).get(far.id) == far
    assert OrderedSpace(2).load(store.newest()).instances == {}


def test_values_and_founders() -> None:
    store = MemoryStore()
    store.transact(lambda tx: SPACE.set_value(tx, b"k\x00", b"v"))
    assert SPACE.value(store.newest(), b"k\x00") == b"v"
    store.transact(lambda tx: SPACE.set_value(tx, b"k\x00", None))
    assert SPACE.value(store.newest(), b"k\x00") is None
    first, later = first_epoch((1, 2, 3)), first_epoch((1, 2))
    assert store.transact(lambda tx: SPACE.founders(tx, None)) is None
    assert store.transact(lambda tx: SPACE.founders(tx, first)) == first
    assert store.transact(lambda tx: SPACE.founders(tx, later)) == first
