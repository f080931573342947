"""The rows of the ordered engine: what is written is what is read after a restart."""

from msgspec.structs import replace

from epoxy.codec import wire
from epoxy.model.ballot import Ballot
from epoxy.model.instances import NOTHING, Deps, Instance, InstanceId, OrderedCommit, Phase, Term
from epoxy.model.members import Kept, KeptId
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import Expiry
from epoxy.model.transactions import NO_ROW, OrderedValue
from epoxy.protocol.txn.acceptor import commit_of
from epoxy.store.memory import MemoryStore
from epoxy.store.txn_rows import OrderedSpace, TermSpace
from tests.protocol.txn.cluster import write

ONE, TWO = InstanceId(1, 1), InstanceId(1, 2)
SPACE = OrderedSpace(1)
ROWS = SPACE.within(0)

INITIAL = Instance(id=ONE)
PREACCEPTED = Instance(id=ONE, phase=Phase.PREACCEPTED, command=write(), deps=Deps(also=(TWO,)), initial=NOTHING)
VOTED = Instance(
    id=ONE, phase=Phase.ACCEPTED, command=write(), deps=NOTHING, ballot=Ballot(2, 1), accepted=Ballot(2, 1)
)
FIRST = Term(number=0, voters=(1, 2, 3), policy=QuorumPolicy.OPTIMAL, ending=False)
NOTHING_DECIDED = Instance(id=TWO, phase=Phase.COMMITTED, nop=True, deps=NOTHING)


def kept(*steps: Instance) -> MemoryStore:
    store, before = MemoryStore(), Instance(id=steps[0].id)
    for after in steps:
        store.transact(lambda tx, before=before, after=after: ROWS.save(tx, before, after))  # type: ignore[misc]
        before = after
    return store


def test_instances_come_back() -> None:
    for steps in ((PREACCEPTED,), (PREACCEPTED, VOTED), (VOTED,), (NOTHING_DECIDED,)):
        log = ROWS.load(kept(*steps).newest())
        assert log.get(steps[-1].id) == steps[-1]
        assert log.highest == {1: steps[-1].id.slot}


def test_a_replica_that_only_joined_a_ballot_remembers_that() -> None:
    joined = Instance(id=ONE, ballot=Ballot(3, 2))
    assert ROWS.load(kept(joined).newest()).get(ONE) == joined


def test_what_was_executed_and_what_was_forgotten_come_back() -> None:
    store = kept(PREACCEPTED, Instance(id=ONE, phase=Phase.COMMITTED, command=write(), deps=NOTHING))
    for each in (ONE, TWO):
        store.transact(lambda tx, each=each: ROWS.mark_executed(tx, each))  # type: ignore[misc]
    log = ROWS.load(store.newest())
    assert (log.executed, log.forgotten) == ({1: 2}, {})
    store.transact(lambda tx: ROWS.forget(tx, [ONE]))
    log = ROWS.load(store.newest())
    assert (log.executed, log.forgotten, log.instances) == ({1: 2}, {1: 1}, {})


def test_replicas_coordinators_and_terms_do_not_mix() -> None:
    store = MemoryStore()
    far = Instance(id=InstanceId(12, 300), phase=Phase.COMMITTED, nop=True, deps=NOTHING)
    store.transact(lambda tx: ROWS.save(tx, Instance(id=far.id), far))
    store.transact(lambda tx: ROWS.forget(tx, [InstanceId(1, 999)]))
    assert ROWS.load(store.newest()).get(far.id) == far
    for others in (TermSpace(2, 0), TermSpace(1, 1)):
        assert others.load(store.newest()).instances == {}


def test_values_and_the_term() -> None:
    store = MemoryStore()
    for held in (OrderedValue(value=b"v", version=1), OrderedValue(value=None, version=2), NO_ROW):
        store.transact(lambda tx, held=held: SPACE.set_held(tx, b"k\x00", held))  # type: ignore[misc]
        assert SPACE.held(store.newest(), b"k\x00") == held
    assert SPACE.term(store.newest()) is None
    store.transact(lambda tx: SPACE.set_term(tx, FIRST))
    assert SPACE.term(store.newest()) == FIRST


def test_a_raw_value_is_read_and_goes_with_the_next_write() -> None:
    """Written before versions were counted. Its bytes may look like a record."""
    record = wire.encode_ordered_value(OrderedValue(value=b"v", version=9))
    store = MemoryStore(contents={SPACE.raw_row(b"k"): record})
    assert SPACE.held(store.newest(), b"k") == OrderedValue(value=record)
    assert SPACE.held(store.newest(), b"k").at == 1
    after = OrderedValue(value=b"w", version=2)
    store.transact(lambda tx: SPACE.set_held(tx, b"k", after))
    assert SPACE.held(store.newest(), b"k") == after
    assert store.newest().get(SPACE.raw_row(b"k")) is None


def test_of_a_term_that_is_over_only_decisions_stay() -> None:
    store = kept(PREACCEPTED)
    store.transact(lambda tx: ROWS.save(tx, Instance(id=TWO), NOTHING_DECIDED))
    store.transact(lambda tx: ROWS.mark_executed(tx, TWO))
    store.transact(lambda tx: ROWS.forget(tx, [InstanceId(3, 1)]))
    assert SPACE.kept(store.newest(), None, 0, 9) == [], "it is not over"
    store.transact(lambda tx: SPACE.arrive(tx, replace(FIRST, number=1)))
    log = ROWS.load(store.newest())
    assert (log.executed, log.forgotten) == ({}, {})
    told = Kept(term=0, commit=commit_of(NOTHING_DECIDED))
    assert SPACE.kept(store.newest(), None, 1, 9) == [told]
    assert SPACE.kept(store.newest(), KeptId(term=0, id=TWO), 1, 9) == []
    assert [list(stream) for stream in ROWS.decided(store.newest(), {1: 1}).values()] == [[told.commit]]
    assert [list(stream) for stream in ROWS.decided(store.newest(), {1: 2}).values()] == [[]]
    store.transact(lambda tx: SPACE.drop_kept(tx, 1))
    assert ROWS.load(store.newest()).instances == {}


def test_what_another_kept_is_kept_here() -> None:
    store = MemoryStore()
    mine = [
        Kept(term=0, commit=OrderedCommit(id=ONE, command=write(), deps=NOTHING)),
        Kept(term=0, commit=commit_of(NOTHING_DECIDED)),
        Kept(term=2, commit=OrderedCommit(id=ONE, command=None, deps=NOTHING)),
    ]
    store.transact(lambda tx: SPACE.keep(tx, mine))
    assert SPACE.kept(store.newest(), None, 3, 9) == mine
    assert SPACE.kept(store.newest(), KeptId(term=0, id=ONE), 3, 1) == mine[1:2]
    assert SPACE.kept(store.newest(), None, 2, 9) == mine[:2]


def test_the_index_follows_what_is_held() -> None:
    """Given, kept by the next version, renewed, taken away, given again, deleted."""
    store = MemoryStore()
    expiries = [Expiry(ttl_ms=9, since=since) if since else None for since in (1, 1, 3, 0, 5, 0)]
    for version, expiry in enumerate(expiries, 1):
        held = OrderedValue(value=None if version == len(expiries) else b"v", version=version, expiry=expiry)
        store.transact(lambda tx, held=held: SPACE.set_held(tx, b"k", held))  # type: ignore[misc]
        found = [(key, entry.version, entry.expiry) for key, entry in SPACE.expiring(store.newest(), None, 9)]
        assert found == ([(b"k", version, expiry)] if expiry is not None else [])
