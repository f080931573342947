"""A replica whose rows were written by the code of an earlier format goes on from where that was.

rows_v2.txt is what a node of then had after decisions, votes and promises, an overwritten configuration, a cached
value, a value and an instance of transactions; rows_v3.txt has the same decisions, but two folds for `counter`.
"""

from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from epoxy.codec import wire
from epoxy.model.ballot import Ballot
from epoxy.model.cluster import CHANGE_REQUEST_KEY, CONFIG_KEY
from epoxy.model.instances import Command
from epoxy.model.marks import OWNED
from epoxy.model.messages import (
    AlreadyCommitted,
    Commit,
    CommitOk,
    ConfigOk,
    Prepare,
    PrepareOk,
    Read,
    ReadOk,
    UpdateConfig,
)
from epoxy.model.records import FRESH, KeyState, Proposal, ProposalId, Settled, Vote
from epoxy.model.transactions import OrderedValue
from epoxy.model.writes import Committed, Write
from epoxy.model.writes import Path as Travelled
from epoxy.node.members.config_record import change_request
from epoxy.store.keyspace import Keyspace
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore
from epoxy.store.row_pages import HeldSpace
from epoxy.store.txn_rows import OrderedSpace
from tests.codec.golden import VALUES
from tests.node.bench import Node
from tests.protocol.keys.harness import A, config_of

KEYS = (b"counter", b"gone", b"long", b"name", b"open", b"owned")
LONG = bytes(range(256)) * 2


def written(value: bytes | None, version: int, by: int, nonce: int, *, mutable: bool = True) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(by, nonce))


COUNTED = {
    wire.HEADER_2: KeyState(
        committed=written(b"4", 4, 2, 104),
        lineage=(Settled(3, ProposalId(1, 103)), Settled(2, ProposalId(3, 102)), Settled(1, ProposalId(2, 101))),
    ),
    wire.HEADER_3: KeyState(
        committed=replace(written(b"4", 4, 2, 104), folded=(ProposalId(1, 103),), proposer=3),
        lineage=(Settled(2, ProposalId(3, 102), (ProposalId(2, 101),)),),
    ),
}
"""What `counter` is by the rows of each format."""

Rows = dict[bytes, bytes]


@pytest.fixture(params=COUNTED, ids=["format 2", "format 3"])
def header(request: pytest.FixtureRequest) -> bytes:
    assert isinstance(request.param, bytes)
    return request.param


@pytest.fixture
def rows(header: bytes) -> Rows:
    lines = Path(__file__).with_name(f"rows_v{header[0]}.txt").read_text("utf-8").splitlines()
    pairs = [line.split() for line in lines if not line.startswith("#")]
    return {bytes.fromhex(key): bytes.fromhex(value.strip("-")) for key, value in pairs}


@pytest.fixture
def counter(header: bytes) -> Proposal:
    committed = COUNTED[header].committed
    assert committed is not None
    return committed


def rewritten(rows: Rows) -> MemoryStore:
    """The same decisions, written by the code of today."""
    earlier, store, keyspace = MemoryStore(contents=rows).newest(), MemoryStore(), Keyspace(A)
    for key in (*KEYS, CHANGE_REQUEST_KEY, CONFIG_KEY):
        held = keyspace.load(earlier, key)
        decided = KeyState(committed=held.committed, lineage=held.lineage)
        store.transact(partial(keyspace.save, key=key, before=FRESH, after=decided))
    return store


def test_states_are_what_they_were(rows: Rows, header: bytes) -> None:
    view, keyspace = MemoryStore(contents=rows).newest(), Keyspace(A)
    assert keyspace.load(view, b"counter") == COUNTED[header]
    assert keyspace.load(view, b"name").is_final
    assert keyspace.load(view, b"gone").committed == written(None, 2, 3, 8)
    assert keyspace.load(view, b"open") == KeyState(
        committed=written(b"1", 1, 2, 11),
        promised=Ballot(6, 2),
        vote=Vote(proposal=written(b"2", 2, 3, 12), ballot=Ballot(4, 3), epoch=1),
    )
    fast = Vote(proposal=written(b"quick", 1, 2, 13, mutable=False), ballot=Ballot(1, 2), epoch=1)
    assert keyspace.load(view, b"fast") == KeyState(vote=fast)
    assert keyspace.cached(view, b"cached") == written(b"seen", 3, 2, 14)
    assert change_request(keyspace.committed(view, CHANGE_REQUEST_KEY)) == VALUES["change_request two"]


def test_transactions_are_what_they_were(rows: Rows) -> None:
    view, space = MemoryStore(contents=rows).newest(), OrderedSpace(A)
    assert space.held(view, b"owned") == OrderedValue(value=b"balance")
    assert space.term(view) == VALUES["term ending"]
    held = VALUES["reply recover-ok"].held
    command = Command(txns=held.command.txns, versioned=False)
    assert space.within(2).load(view).get(held.id) == replace(held, command=command), "it counts no versions"


def test_the_configuration_is_the_one_that_all_replicas_know(rows: Rows) -> None:
    """Told of it again by a peer, the replica finds its own bytes, and not two configurations of one epoch."""
    node = Node(contents=rows)
    assert node.replica.config == config_of(5, epoch=2)
    assert node.handle_now(UpdateConfig(config=config_of(5, epoch=2))) == ConfigOk(epoch=2)
    assert node.handle_now(UpdateConfig(config=config_of(3, epoch=3))) == ConfigOk(epoch=3)
    assert node.alarms == []
    row = Keyspace(A).value_row(CONFIG_KEY)
    assert node.store.newest().get(row) is not None


def test_an_acceptor_keeps_what_it_promised_and_voted(rows: Rows, counter: Proposal) -> None:
    node = Node(contents=rows)
    vote = node.state(b"open").vote
    refused = Prepare(key=b"open", epoch=2, ballot=Ballot(5, 3), base=1)
    assert node.handle_now(refused) != PrepareOk(vote=vote)
    assert node.handle_now(replace(refused, ballot=Ballot(7, 3))) == PrepareOk(vote=vote)
    assert node.handle_now(Read(key=b"counter", epoch=2)) == ReadOk(committed=counter, vote=None)


def test_a_decision_that_is_learned_again_is_no_conflict(rows: Rows, counter: Proposal) -> None:
    node = Node(contents=rows)
    again = Commit(key=b"counter", epoch=2, proposal=counter)
    assert isinstance(node.handle_now(again), AlreadyCommitted)
    assert node.alarms == []


def test_the_next_write_of_a_key_is_on_top_and_in_format_4(rows: Rows, header: bytes) -> None:
    node, row = Node(contents=rows), Keyspace(A).value_row(b"counter")
    before = node.store.newest().get(row)
    assert before is not None
    assert before.startswith(header)
    fold = replace(written(b"6", 6, 1, 106), folded=(ProposalId(3, 105),))
    assert node.handle_now(Commit(key=b"counter", epoch=2, proposal=fold)) == CommitOk()
    after = node.store.newest().get(row)
    assert after is not None
    assert after.startswith(wire.HEADER)
    assert [each.version for each in node.state(b"counter").lineage] == [
        4,
        *[s.version for s in COUNTED[header].lineage],
    ]


def test_a_replica_alone_adds_to_what_was_there(rows: Rows, counter: Proposal) -> None:
    rows = {key: value for key, value in rows.items() if key != Keyspace(A).value_row(CONFIG_KEY)}
    node = Node(contents=rows, config=config_of(1))
    node.driver.write(Write(key=b"counter", value=None, mutable=True, amount=38), node.outcomes.append)
    node.disk.sync()
    (outcome,) = node.outcomes
    assert isinstance(outcome, Committed)
    assert (outcome.proposal.value, outcome.proposal.version, outcome.path) == (b"42", 5, Travelled.FAST)
    assert outcome.previous == counter


def test_keys_are_counted_and_listed_in_all_formats(rows: Rows) -> None:
    keyspace, store = Keyspace(A), MemoryStore(contents=rows)
    for view in (store.newest(), rewritten(rows).newest()):
        assert keyspace.living(view, None, 100, OWNED) == (4, [b"owned"], None)
        assert [key for key, _ in keyspace.page(view, b"", None, 100)] == list(KEYS)


def test_the_changelog_is_read_on(rows: Rows, header: bytes) -> None:
    """By subscribers that stopped in the middle of it, and by members that copy."""
    keyspace, view = Keyspace(A), MemoryStore(contents=rows).newest()
    entries = [entry for _, entry in keyspace.changelog(view, bytes(10), 100)]
    assert [(entry.key, entry.committed.version) for entry in entries if entry.key < b"\xff"] == [
        (b"name", 1),
        *((b"counter", each) for each in (*[s.version for s in reversed(COUNTED[header].lineage)], 4)),
        *((b"gone", 1), (b"gone", 2)),
        *((b"long", 1), (b"owned", 1), (b"open", 1)),
    ]


def test_one_digest_of_one_decision_in_all_formats(rows: Rows) -> None:
    """Of anti-entropy, and of the comparison for a backup: otherwise a replica of each would exchange all keys for
    ever."""
    old, new = MemoryStore(contents=rows).newest(), rewritten(rows).newest()
    members, held, row = MemberSpace(Keyspace(A), A), HeldSpace(A), Keyspace(A).value_row
    assert members.stretch(old, None) == members.stretch(new, None)
    assert held.stretches(old, None, 1) == held.stretches(new, None, 1)
    assert all(old.get(row(key)) != new.get(row(key)) for key in KEYS), "their bytes differ"


@pytest.mark.pure("plants a fault in the comparison")
def test_bytes_that_are_compared_as_they_are_stored_are_seen(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "renewed", lambda record: record)
    with pytest.raises(AssertionError):
        test_one_digest_of_one_decision_in_all_formats(rows)
