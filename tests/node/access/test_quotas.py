"""Quotas: requests a second at a node, and what is counted as stored."""

from collections.abc import Callable
from types import SimpleNamespace

import msgspec
import pytest
from msgspec.structs import replace

from epoxy.model.access import MAX_GRANTS, AccessRole, AccessTable, Grant
from epoxy.model.cluster import first_epoch
from epoxy.model.integers import LONGEST_INTEGER
from epoxy.model.messages import Commit
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.transactions import Add, Delete, Done, Executed, Get, Put, Txn, TxnOutcome, TxnUnknown, Wrong
from epoxy.model.writes import Committed, ConsensusFailed, Outcome, Write
from epoxy.model.writes import Path as Way
from epoxy.node.access import quotas as quotas_module
from epoxy.node.access.control import AccessControl
from epoxy.node.access.quotas import KEPT_NAMES, PUBLISH_MS, Quotas, usage_key
from epoxy.protocol.access.principal import OPEN, Principal
from tests.node.bench import Node
from tests.protocol.keys.harness import A, B, FixedDice

KEY = b"user/1"


def limited(name: str = "ci", *, rate: int = 0, size: int = 0) -> Principal:
    return Principal(Grant(name=name, roles=(AccessRole.WRITER,), requests_per_s=rate, stored_bytes=size))


class Counting:
    """A cluster of one member: everything is decided at once."""

    def __init__(self, contents: dict[bytes, bytes] | None = None) -> None:
        self.node = Node(config=first_epoch((A,)), contents=contents)
        self.access = AccessControl(self.node.driver, self.node.store, FixedDice(), lambda _: None, is_open=False)
        self.quotas = Quotas(self.access, self.node.driver, self.node.store, FixedDice())

    def write(
        self, principal: Principal, value: bytes | None, key: bytes = KEY, *, mutable: bool = True, ttl_ms: int = 0
    ) -> Outcome:
        outcomes: list[Outcome] = []
        self.node.driver.write(Write(key=key, value=value, mutable=mutable, ttl_ms=ttl_ms), outcomes.append)
        self.node.disk.sync()
        self.quotas.charge(principal, key, outcomes[0])
        return outcomes[0]

    def publish(self) -> None:
        self.node.clock.advance(1.5 * PUBLISH_MS)
        self.node.disk.sync()

    def told(self, replica: int, value: bytes, version: int = 1) -> None:
        """Another replica has published its counts."""
        proposal = Proposal(value=value, version=version, mutable=True, proposal_id=ProposalId(replica, version))
        self.node.replica.handle([Commit(key=usage_key(replica), epoch=1, proposal=proposal)], lambda _: None)
        self.node.disk.sync()

    def again(self) -> "Counting":
        """After a restart."""
        return Counting(dict(self.node.store.durable().range(b"", b"\xff", limit=1000)))


def counts(**bytes_of: int) -> bytes:
    return msgspec.msgpack.encode(bytes_of)


# Requests


@pytest.mark.parametrize("rate", [1, 3, 7, 1000])
def test_as_many_as_in_one_second_at_once_and_then_at_the_rate(rate: int) -> None:
    desk, client = Counting(), limited(rate=rate)
    assert [desk.quotas.wait_s(client) for _ in range(rate)] == [0.0] * rate
    wait = desk.quotas.wait_s(client)
    assert wait == pytest.approx(1 / rate)
    assert desk.quotas.refused["requests"] == 1
    desk.node.clock.advance(1000 * wait + 0.01)
    assert desk.quotas.wait_s(client) == 0.0
    assert desk.quotas.wait_s(client) > 0.0
    desk.node.clock.advance(60_000)
    assert [desk.quotas.wait_s(client) > 0 for _ in range(rate + 1)] == [False] * rate + [True]


def test_the_rate_holds_over_a_long_time_and_refusals_cost_nothing() -> None:
    desk, client = Counting(), limited(rate=10)
    admitted = 0
    for _ in range(1000):
        admitted += desk.quotas.wait_s(client) == 0.0
        desk.node.clock.advance(10)
    assert 100 <= admitted <= 110


def test_clients_do_not_share_their_rates_and_those_without_are_not_counted() -> None:
    desk = Counting()
    assert desk.quotas.wait_s(limited("a", rate=1)) == desk.quotas.wait_s(limited("b", rate=1)) == 0.0
    assert desk.quotas.wait_s(limited("a", rate=1)) > 0
    assert [desk.quotas.wait_s(OPEN) for _ in range(100)] == [0.0] * 100
    assert len(desk.quotas._full_at_ms) == 2


def test_names_that_are_idle_are_forgotten() -> None:
    desk = Counting()
    for number in range(3 * MAX_GRANTS):
        desk.quotas.wait_s(limited(f"n{number}", rate=1000))
        desk.node.clock.advance(2)
    assert len(desk.quotas._full_at_ms) <= MAX_GRANTS


# Bytes


def test_what_a_write_counts() -> None:
    desk, client = Counting(), limited(size=1000)
    for value, used in [
        (b"x" * 10, len(KEY) + 10),
        (b"x" * 30, len(KEY) + 30),
        (b"x" * 5, len(KEY) + 5),
        (None, len(KEY)),
        (b"xx", len(KEY) + 2),
    ]:
        desk.write(client, value)
        assert desk.quotas.usage("ci") == used
    desk.write(client, b"abc", b"name", mutable=False)
    desk.write(client, b"abc", b"name", mutable=False)
    desk.write(client, b"other", b"name", mutable=False)
    assert desk.quotas.usage("ci") == len(KEY) + 2 + len(b"name") + 3, "a name is taken once"


def test_a_quota_is_reached_and_a_delete_makes_room() -> None:
    desk, client = Counting(), limited(size=100)
    desk.write(client, b"x" * 80)
    assert desk.quotas.refusal(client, 14) is None
    words = desk.quotas.refusal(client, 15)
    assert words is not None
    assert "86 of 100 bytes" in words
    assert desk.quotas.refused["bytes"] == 1
    assert desk.quotas.refusal(client, 0) is None
    desk.write(client, None)
    assert desk.quotas.refusal(client, 94) is None


def test_a_value_that_ends_by_itself_is_given_back_once() -> None:
    desk, client = Counting(), limited(size=10_000)
    desk.write(client, b"v" * 100, ttl_ms=1_000)
    assert desk.quotas.usage("ci") == 100 + len(KEY)
    desk.node.clock.advance(1_100)
    desk.node.disk.sync()
    assert desk.node.replica.newest(KEY) is not None
    assert desk.quotas.usage("ci") == len(KEY), "its tombstone stays"
    desk.write(client, b"v" * 100, ttl_ms=1_000)
    desk.write(client, b"v" * 10)
    assert desk.quotas.usage("ci") == 10 + len(KEY)
    desk.write(client, b"v" * 50, ttl_ms=1_000)
    desk.write(client, None)
    assert desk.quotas.usage("ci") == len(KEY)


def test_without_a_quota_nothing_is_counted() -> None:
    desk = Counting()
    desk.write(limited(), b"x" * 80)
    assert desk.quotas.usage("ci") == 0
    assert desk.quotas.refusal(limited(), 1 << 40) is None
    assert desk.node.clock.pending == []


def test_an_outcome_that_is_not_known_is_not_counted() -> None:
    desk, client = Counting(), limited(size=100)
    desk.quotas.charge(client, KEY, ConsensusFailed(reason="late"))
    proposal = Proposal(value=b"x", version=1, mutable=True, proposal_id=ProposalId(B, 1))
    desk.quotas.charge(client, KEY, Committed(proposal=proposal, mine=False, path=Way.FAST))
    assert desk.quotas.usage("ci") == 0


def test_deleting_what_others_stored_gains_no_room() -> None:
    desk, thief = Counting(), limited("thief", size=100)
    desk.write(limited(size=1000), b"x" * 500)
    desk.write(thief, None)
    assert desk.quotas.usage("thief") == 0
    desk.write(thief, b"x" * 60, b"k")
    assert desk.quotas.usage("thief") == 61


# Transactions


TXN = Txn(then=(Put(key=b"a", value=b"12345"), Delete(key=b"b"), Add(key=b"n", amount=1), Get(key=b"g")))


def executed(*done: Done, succeeded: bool = True) -> Executed:
    return Executed(succeeded=succeeded, done=done)


@pytest.mark.parametrize(
    ("fresh", "outcome", "added"),
    [
        ({b"a"}, executed(Done(value=None), Done(value=None), Done(value=b"2"), Done(value=None)), 6),
        (set[bytes](), executed(Done(value=b"12"), Done(value=b"123456"), Done(value=b"2"), Done(value=b"x")), 3 - 6),
        ({b"n"}, executed(Done(value=None), Done(value=None), Done(value=b"1"), Done(value=None)), 6 + LONGEST_INTEGER),
        (
            {b"n"},
            executed(Done(value=None), Done(value=None), Done(value=None, wrong=Wrong.OVERFLOW), Done(value=None)),
            5,
        ),
        ({b"a"}, executed(succeeded=False), 0),
    ],
)
def test_what_a_transaction_counts(fresh: set[bytes], outcome: Executed, added: int) -> None:
    assert quotas_module.added_by(TXN, outcome, fresh) == added


def test_a_key_that_is_written_twice_in_a_transaction_is_taken_once() -> None:
    txn = Txn(then=(Put(key=b"key", value=b"1"), Put(key=b"key", value=b"22")))
    outcome = executed(Done(value=None), Done(value=b"1"))
    assert quotas_module.added_by(txn, outcome, {b"key"}) == 3 + 2


def test_transactions_are_counted_by_their_outcomes() -> None:
    desk, client = Counting(), limited(size=1000)
    told: list[TxnOutcome] = []
    txn = Txn(then=(Put(key=b"key", value=b"1"),))
    answered: Callable[[TxnOutcome], None] = desk.quotas.charging(client, txn, told.append)
    answered(executed(Done(value=None)))
    assert desk.quotas.usage("ci") == 4
    desk.quotas.charging(client, txn, told.append)(TxnUnknown(reason="late"))
    assert (desk.quotas.usage("ci"), len(told)) == (4, 2)
    assert desk.quotas.charging(OPEN, txn, told.append) == told.append
    assert desk.quotas.charging(client, Txn(reads=(b"k",)), told.append) == told.append


# What other nodes count


def test_counts_are_published_once_after_a_change_and_not_at_rest() -> None:
    desk, client = Counting(), limited(size=1000)
    desk.write(client, b"x")
    desk.write(client, b"y", b"k")
    assert desk.node.replica.version(usage_key(A)) == 0
    desk.publish()
    assert desk.node.replica.version(usage_key(A)) == 1
    assert desk.node.clock.pending == []
    desk.write(client, b"xx")
    desk.publish()
    assert desk.node.replica.version(usage_key(A)) == 2


def test_what_others_published_counts_too_also_after_a_restart() -> None:
    desk, client = Counting(), limited(size=1000)
    desk.write(client, b"x" * 10)
    desk.told(B, counts(ci=100, other=7))
    desk.told(77, counts(ci=1000))
    assert (desk.quotas.usage("ci"), desk.quotas.usage("other")) == (1116, 7)
    desk.told(B, counts(ci=50), 2)
    assert (desk.quotas.usage("ci"), desk.quotas.usage("other")) == (1066, 0)
    desk.publish()
    again = desk.again()
    assert again.quotas.usage("ci") == 1066
    again.write(client, b"x" * 12)
    assert again.quotas.usage("ci") == 1068


def test_a_node_that_does_not_learn_of_others_looks_at_what_they_published() -> None:
    desk, client = Counting(), limited(size=1000)
    desk.access.table = AccessTable(grants=(Grant(name="ci", roles=(AccessRole.WRITER,), stored_bytes=1000),))
    desk.node.replica.short_watchers.remove((desk.quotas._committed, desk.quotas._committed_plain))
    desk.told(B, counts(ci=900))
    assert desk.quotas.refusal(client, 200) is None
    desk.quotas.follow()
    assert "900 of 1000" in (desk.quotas.refusal(client, 200) or "")
    desk.told(B, counts(ci=100), version=2)
    desk.node.clock.advance(PUBLISH_MS)
    assert desk.quotas.refusal(client, 200) is None
    desk.quotas.stop()
    assert desk.node.clock.pending == []


def test_a_restart_loses_what_was_not_published() -> None:
    desk, client = Counting(), limited(size=1000)
    desk.write(client, b"x" * 10)
    desk.publish()
    desk.write(client, b"x" * 20)
    assert desk.again().quotas.usage("ci") == len(KEY) + 10


def test_bytes_may_be_given_back_at_another_node() -> None:
    desk, client = Counting(), limited(size=1000)
    desk.told(B, counts(ci=100))
    desk.node.driver.write(Write(key=b"k", value=b"x" * 99, mutable=True), lambda _: None)
    desk.node.disk.sync()
    desk.write(client, None, b"k")
    assert desk.quotas.usage("ci") == 1
    desk.publish()
    assert desk.again().quotas.usage("ci") == 1, "a count below zero is published, too"


def test_counts_of_the_process_before_that_come_late_are_not_lost() -> None:
    desk, client = Counting(), limited(size=1000)
    desk.write(client, b"x" * 10)
    desk.told(A, counts(ci=500))
    assert desk.quotas.usage("ci") == 500


@pytest.mark.parametrize("value", [b"", b"\xff", msgspec.msgpack.encode([1]), msgspec.msgpack.encode({"ci": "x"})])
def test_counts_that_cannot_be_read_leave_those_before(value: bytes) -> None:
    desk = Counting()
    desk.told(B, counts(ci=100))
    desk.told(B, value, 2)
    assert desk.quotas.usage("ci") == 100


def test_names_are_bounded_and_those_with_a_grant_stay() -> None:
    desk, small = Counting(), limited("granted", size=10_000)
    desk.access.table = AccessTable(grants=(replace(small.grant, name="granted"),))
    desk.quotas._add("granted", 1)
    for number in range(KEPT_NAMES + 10):
        desk.quotas._add(f"n{number}", 10 + number)
    assert len(desk.quotas._own) == KEPT_NAMES
    assert (desk.quotas.usage("granted"), desk.quotas.usage("n0")) == (1, 0)


def test_a_failed_publication_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, client = Counting(), limited(size=1000)
    tried: list[Write] = []

    def fails(write: Write, answered: Callable[[Outcome], None]) -> None:
        tried.append(write)
        answered(ConsensusFailed(reason="no quorum"))

    monkeypatch.setattr(desk.quotas, "_driver", SimpleNamespace(write=fails))
    desk.quotas._add(client.name, 5)
    desk.node.clock.advance(5 * PUBLISH_MS)
    assert len(tried) > 2


def test_a_planted_fault_is_found_keys_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a delete gave the key's bytes back, tombstones would be free, and fill a cluster without a bound."""
    rule = quotas_module.added_bytes

    def broken(key: bytes, before: Proposal | None, after: Proposal) -> int:
        return rule(key, before, after) - (len(key) if after.value is None else 0)

    monkeypatch.setattr(quotas_module, "added_bytes", broken)
    with pytest.raises(AssertionError):
        test_what_a_write_counts()
