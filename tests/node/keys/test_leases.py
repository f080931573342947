"""Leases across a WAN, in virtual time: who ends a value, when, and by which decision."""

import pytest

from epoxy.model.errors import StoreUnavailable
from epoxy.model.records import ExpiryEntry, KeyState
from epoxy.model.sessions import session_key
from epoxy.model.strings import KEEP, Evaluated, Register, Steps
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    NothingToDelete,
    Outcome,
    ReadOutcome,
    ReadResult,
    Unchanged,
    VersionMismatch,
    Write,
)
from epoxy.node.keys import leases
from epoxy.node.keys.leases import MAX_ENDING, RANK_MS, wait_ms
from tests.node.keys.virtual_wan import VirtualWan

KEY, TTL = b"lock", 2_000
HERE, THERE, FAR = "us-east-1", "eu-west-1", "ap-northeast-1"
SESSION = bytes(16)


def write(wan: VirtualWan, region: str, change: Write, wait: float = 1_000) -> Outcome:
    answers: list[Outcome] = []
    node = wan.by_name[region]
    node.run(lambda: node.driver.write(change, answers.append))
    wan.pass_ms(wait)
    (outcome,) = answers or [ConsensusFailed(reason="not yet")]
    return outcome


def read(wan: VirtualWan, region: str, consistency: Consistency, key: bytes = KEY) -> ReadResult:
    answers: list[ReadOutcome] = []
    node = wan.by_name[region]
    node.run(lambda: node.driver.read(key, consistency, answers.append))
    wan.pass_ms(1_000)
    (outcome,) = answers
    assert isinstance(outcome, ReadResult), outcome
    return outcome


def acquire(value: bytes, ttl_ms: int = TTL) -> Write:
    return Write(key=KEY, value=value, mutable=True, if_absent=True, ttl_ms=ttl_ms)


def touch(version: int | None, ttl_ms: int = TTL) -> Write:
    return Write(key=KEY, value=None, mutable=True, touch=True, ttl_ms=ttl_ms, if_version=version)


def held(wan: VirtualWan, region: str, key: bytes = KEY) -> bytes | None:
    newest = wan.by_name[region].replica.newest(key)
    return newest.value if newest is not None else None


def version(wan: VirtualWan, region: str) -> int:
    return wan.by_name[region].replica.version(KEY)


def test_a_second_holder_is_refused_until_the_lease_is_over_and_gets_a_higher_token() -> None:
    wan = VirtualWan(1)
    first = write(wan, HERE, acquire(b"a"), wait=300)
    refused = write(wan, THERE, acquire(b"b"), wait=300)
    assert isinstance(first, Committed)
    assert isinstance(refused, ExpectedValueDoesNotMatch)
    wan.pass_ms(wait_ms(TTL) - 600)
    assert held(wan, HERE) == b"a", "never early"
    wan.pass_ms(600)
    second = write(wan, THERE, acquire(b"b"))
    assert isinstance(second, Committed)
    assert second.proposal.version > first.proposal.version


def test_all_ends_are_decided_once_and_by_the_home_while_it_lives() -> None:
    wan = VirtualWan(2)
    write(wan, HERE, acquire(b"a"), wait=200)
    wan.pass_ms(wait_ms(TTL) + 200)
    assert [held(wan, name) for name in wan.names] == [None] * 5
    assert {version(wan, name) for name in wan.names} == {2}
    ended = {name: wan.by_name[name].driver.leases.ended for name in wan.names}
    assert ended == {name: int(name == HERE) for name in wan.names}


def test_another_replica_ends_what_a_silent_home_does_not() -> None:
    wan = VirtualWan(3)
    write(wan, HERE, acquire(b"a"), wait=300)
    wan.by_name[HERE].stopped = True
    wan.pass_ms(wait_ms(TTL) + 2 * (RANK_MS + 500))
    assert [held(wan, name) for name in wan.names if name != HERE] == [None] * 4


def test_a_renewal_counts_anew_and_a_stale_timer_ends_nothing() -> None:
    wan = VirtualWan(4)
    write(wan, HERE, acquire(b"a"), wait=1_500)
    renewed = write(wan, HERE, touch(1), wait=1_500)
    assert isinstance(renewed, Committed)
    assert renewed.proposal.value == b"a"
    assert [held(wan, name) for name in wan.names] == [b"a"] * 5
    wan.pass_ms(wait_ms(TTL))
    assert held(wan, FAR) is None


def test_a_replica_that_missed_the_renewal_cannot_end_the_lease() -> None:
    wan = VirtualWan(5)
    write(wan, HERE, acquire(b"a"), wait=500)
    far = wan.by_name[FAR]
    far.stopped = True
    renewed = write(wan, HERE, touch(1, 60_000), wait=500)
    assert isinstance(renewed, Committed)
    wan.pass_ms(3_000)
    assert far.replica.version(KEY) == 1
    # Its count has run out, and what it missed is still on its way.
    far._backlog.clear()
    far.stopped = False
    outcome = write(wan, FAR, acquire(b"b"), wait=2_000)
    assert isinstance(outcome, ExpectedValueDoesNotMatch)
    assert held(wan, HERE) == b"a"


def test_a_counter_that_is_written_on_and_on_ends_at_its_time() -> None:
    wan = VirtualWan(6)
    add = Write(key=KEY, value=None, mutable=True, amount=1, ttl_ms=TTL)
    began_ms = wan.now_ms
    first = write(wan, HERE, add, wait=100)
    assert isinstance(first, Committed)
    counted = 1
    while wan.now_ms - began_ms < wait_ms(TTL):
        outcome = write(wan, HERE, add, wait=150)
        assert isinstance(outcome, Committed)
        counted += 1
        if outcome.proposal.value == b"1":
            break
        assert outcome.proposal.expiry == first.proposal.expiry
    last = write(wan, HERE, add, wait=300)
    assert isinstance(last, Committed)
    assert last.proposal.value in (b"1", b"2"), f"a new window after {counted}"


def test_reads_hide_what_is_over_and_a_linearizable_one_decides_it() -> None:
    wan = VirtualWan(7)
    write(wan, HERE, acquire(b"a"), wait=300)
    for name in wan.names:  # none of them ends it by itself
        wan.by_name[name].driver.leases._due.clear()
    wan.pass_ms(wait_ms(TTL))
    assert held(wan, THERE) == b"a"
    assert read(wan, THERE, Consistency.OPTIMISTIC).value is None
    assert held(wan, THERE) == b"a", "hidden, not decided"
    assert read(wan, THERE, Consistency.LINEARIZABLE).value is None
    assert held(wan, THERE) is None
    assert version(wan, HERE) == 2


def test_an_overwrite_without_an_expiry_stays() -> None:
    wan = VirtualWan(8)
    write(wan, HERE, acquire(b"a"), wait=300)
    write(wan, THERE, Write(key=KEY, value=b"for good", mutable=True), wait=300)
    wan.pass_ms(wait_ms(TTL) + 1_000)
    assert held(wan, HERE) == b"for good"
    assert len(wan.by_name[HERE].driver.leases) == 0


def test_what_is_kept_and_what_is_given_up() -> None:
    wan = VirtualWan(9)
    write(wan, HERE, acquire(b"a"), wait=300)
    kept = write(wan, HERE, Write(key=KEY, value=b"b", mutable=True, keep_expiry=True), wait=300)
    assert isinstance(kept, Committed)
    assert kept.proposal.expiry is not None
    assert kept.proposal.expiry.since == 1
    persisted = write(wan, HERE, touch(None, 0), wait=300)
    assert isinstance(persisted, Committed)
    assert persisted.proposal.expiry is None
    missing = write(wan, HERE, Write(key=b"none", value=None, mutable=True, touch=True, ttl_ms=5), wait=300)
    assert isinstance(missing, NothingToDelete)


def test_remaining_time_is_counted_here() -> None:
    wan = VirtualWan(10)
    done = write(wan, HERE, acquire(b"a"), wait=500)
    assert isinstance(done, Committed)
    remaining = wan.by_name[HERE].driver.leases.remaining_ms(KEY, done.proposal)
    assert remaining is not None
    assert TTL - 500 <= remaining < TTL


def test_what_has_ended_is_not_shown_again_before_its_tombstone_is_durable() -> None:
    """The count goes with the commit; a local read sees the row that is durable, which is the value for a moment."""
    wan = VirtualWan(20, (HERE,))
    done = write(wan, HERE, acquire(b"a"), wait=500)
    assert isinstance(done, Committed)
    node = wan.by_name[HERE]
    assert not node.driver.leases.is_over(KEY, done.proposal)
    tombstones: list[bool] = []

    def look(_key: bytes, _before: KeyState, after: KeyState) -> None:
        assert after.committed is not None
        tombstones.append(after.committed.is_tombstone)
        assert node.driver.leases.shown(KEY, done.proposal).value is None
        assert node.driver.leases.remaining_ms(KEY, done.proposal) == 0

    node.replica.commit_watchers.append(look)
    wan.pass_ms(wait_ms(TTL))
    assert tombstones == [True]
    assert node.driver.leases.is_over(KEY, done.proposal)


def test_an_end_that_a_kept_expiry_overtook_is_proposed_again() -> None:
    """The addition is under way when the count runs out, and there is no other replica."""
    wan = VirtualWan(21, (HERE,))
    add = Write(key=KEY, value=None, mutable=True, amount=1, ttl_ms=TTL)
    write(wan, HERE, add, wait=100)
    node = wan.by_name[HERE]
    counts, second = node.driver.leases, list[Outcome]()

    def runs_out_meanwhile() -> None:
        node.driver.write(add, second.append)
        found = counts._counts[KEY]
        found.ends_ms = wan.now_ms
        counts._due.clear()
        counts._end(KEY, found, wan.now_ms)

    node.run(runs_out_meanwhile)
    wan.pass_ms(1_000)
    assert [type(outcome) for outcome in second] == [Committed]
    assert held(wan, HERE) is None
    assert len(counts) == 0


def test_many_that_end_at_once_are_ended_some_at_a_time() -> None:
    wan = VirtualWan(11)
    here, most = wan.by_name[HERE], 0
    for number in range(300):
        each = Write(key=b"k%d" % number, value=b"", mutable=True, ttl_ms=TTL)
        here.run(lambda each=each: here.driver.write(each, lambda _: None))  # type: ignore[misc]
    wan.pass_ms(wait_ms(TTL) - 100)
    while any(len(wan.by_name[name].driver.leases) for name in wan.names):
        most = max(most, *[len(wan.by_name[name].driver.leases._ending) for name in wan.names])
        wan.pass_ms(20)
        assert wan.now_ms < 60_000
    assert most == MAX_ENDING
    assert sum(wan.by_name[name].driver.leases.ended for name in wan.names) == 300


def test_a_restart_counts_anew() -> None:
    wan = VirtualWan(16)
    write(wan, HERE, acquire(b"a"), wait=1_000)
    there = wan.by_name[THERE]
    there.driver.leases = again = leases.Leases(there.driver)
    assert len(again) == 0
    again.load()
    wan.pass_ms(10)
    newest = there.replica.newest(KEY)
    assert newest is not None
    remaining = again.remaining_ms(KEY, newest)
    assert remaining is not None
    assert remaining > TTL - 20
    assert not again.is_over(KEY, newest)


def test_a_start_reads_the_index_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LOADED_AT_ONCE", 3)
    wan = VirtualWan(17)
    for number in range(8):
        write(wan, HERE, Write(key=b"k%d" % number, value=b"", mutable=True, ttl_ms=60_000), wait=10)
    wan.pass_ms(1_000)
    again = leases.Leases(wan.by_name[THERE].driver)
    again.load()
    wan.pass_ms(10)
    assert len(again) == 8


def test_a_database_that_is_away_is_asked_again_for_the_index() -> None:
    """At a node that has just taken the shard: a lease that is not counted would never end."""
    wan = VirtualWan(18)
    write(wan, HERE, acquire(b"a"), wait=1_000)
    driver = wan.by_name[THERE].driver
    again, asked = leases.Leases(driver), 0

    def away_at_first(after: bytes | None, count: int) -> list[tuple[bytes, ExpiryEntry]]:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise StoreUnavailable("no connection to the database")
        return driver.replica.expiring(after, count)

    again.indexes = [away_at_first]
    again.load()
    wan.pass_ms(leases.LOADED_AGAIN_MS * 1.5)
    assert len(again) == 0
    wan.pass_ms(leases.LOADED_AGAIN_MS)
    assert len(again) == 1


def test_how_late_it_is_with_ends_is_known() -> None:
    wan = VirtualWan(15)
    write(wan, HERE, acquire(b"a"), wait=300)
    here = wan.by_name[HERE].driver.leases
    assert here.late_ms == 0
    wan.pass_ms(wait_ms(TTL) - 400)
    for name in wan.names:
        wan.by_name[name].stopped = True
    wan.pass_ms(1_000)
    assert 500 < here.late_ms < 1_000


def test_keys_end_with_their_session() -> None:
    wan = VirtualWan(12)
    session = Write(key=session_key(SESSION), value=b"", mutable=True, if_version=0, ttl_ms=TTL)
    write(wan, HERE, session, wait=300)
    for number in range(3):
        write(wan, THERE, Write(key=b"k%d" % number, value=b"", mutable=True, session=SESSION), wait=200)
    wan.pass_ms(TTL)
    wan.pass_ms(2_000)
    assert [held(wan, FAR, b"k%d" % number) for number in range(3)] == [None] * 3


def test_a_key_whose_session_was_never_heard_of_ends() -> None:
    wan = VirtualWan(13)
    write(wan, HERE, Write(key=KEY, value=b"", mutable=True, session=SESSION), wait=500)
    assert held(wan, HERE) == b""
    wan.pass_ms(leases.UNHEARD_MS + 3_000)
    assert held(wan, HERE) is None


def appending(steps: Steps, register: Register) -> Evaluated:
    """A stand-in for the evaluator of commands: appends, or reads."""
    added = b"".join([command[1] for command in steps.commands])
    value = (register.value or b"") + added
    return Evaluated(value=value, replies=(value,), expiry=KEEP, changed=bool(added))


def test_steps_are_evaluated_in_the_fold_and_keep_the_expiry() -> None:
    wan = VirtualWan(14)
    for region in wan.regions.values():
        region.driver.evaluate = appending
    write(wan, HERE, acquire(b"a"), wait=300)
    more = Write(key=KEY, value=None, mutable=True, steps=Steps(commands=((b"APPEND", b"b"),)))
    done = write(wan, THERE, more, wait=300)
    assert isinstance(done, Committed)
    assert (done.proposal.value, done.replies) == (b"ab", (b"ab",))
    assert done.proposal.expiry is not None
    nothing = Write(key=KEY, value=None, mutable=True, steps=Steps(commands=((b"GET", b""),)))
    seen = write(wan, FAR, nothing, wait=500)
    assert isinstance(seen, Unchanged)
    assert seen.replies == (b"ab",)
    assert isinstance(write(wan, FAR, touch(7), wait=500), VersionMismatch)


@pytest.mark.pure("plants faults in the rules")
def test_without_the_margin_a_lease_ends_while_a_slow_clock_believes_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the first test fails then."""
    monkeypatch.setattr(leases, "wait_ms", lambda ttl_ms: ttl_ms / 2)
    wan = VirtualWan(1)
    write(wan, HERE, acquire(b"a"), wait=600)
    wan.pass_ms(wait_ms(TTL) - 600)
    assert held(wan, HERE) is None
