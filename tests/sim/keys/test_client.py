"""Simulated clients: what they ask, how long they wait, where they go, and what they write down."""

from collections.abc import Callable

import pytest

from epoxy.model.records import Proposal, ProposalId
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    Path,
    ReadFailed,
    ReadOutcome,
    ReadResult,
    Refused,
    Source,
    VersionMismatch,
    Write,
)
from epoxy.node.keys.driver import Driver
from epoxy_sim import history
from epoxy_sim.keys.client import MAX_COUNT_TRIES, PATIENCE_US, Client, Recorder, kind_of, recorded, recorded_read
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.plan import WORD, Ask
from epoxy_sim.linearizability import Linearizable, check
from epoxy_sim.patching import Patch, applied
from tests.sim.keys.bench import KEY, Town, plan_of, step

A, B, C = 1, 2, 3
PATIENCE_MS = PATIENCE_US / 1000


def finish(town: Town, *clients: Client) -> None:
    assert town.world.run_until(lambda: all(client.done for client in clients), town.world.now_us + 10 * PATIENCE_US)


def told(town: Town) -> list[history.Outcome]:
    return [operation.outcome for operation in town.recorder.operations.values()]


def kinds(town: Town) -> list[history.Kind]:
    return [operation.kind for operation in town.recorder.operations.values()]


def test_a_client_plays_its_plan_and_is_done() -> None:
    town = Town()
    client = town.client(
        step(Ask.RESERVE, value=5), step(Ask.READ), step(Ask.RESERVE, value=6), step(Ask.RESERVE, value=5)
    )
    assert not client.done
    finish(town, client)
    found = history.Found(value=b"5", version=1, mutable=False)
    lost = history.Lost(value=b"5", version=1, mutable=False)
    assert told(town) == [history.Won(version=1), found, lost, history.Same(version=1)]
    assert client.unanswered == 0
    assert len(client.outcomes) == 4


def test_every_ask_is_what_it_says() -> None:
    town = Town()
    client = town.client(
        step(Ask.SWAP, value=1),
        step(Ask.PUT, value=2),
        step(Ask.READ, consistency=Consistency.OPTIMISTIC),
        step(Ask.SWAP, value=3),
        step(Ask.DELETE),
        step(Ask.DELETE),
        step(Ask.RESERVE, value=4),
        step(Ask.PUT, value=5),
    )
    finish(town, client)
    assert kinds(town) == [
        history.Put(value=b"1", if_version=0),
        history.Put(value=b"2"),
        history.Read(linearizable=False),
        history.Put(value=b"3", if_version=2),
        history.Delete(),
        history.Delete(),
        history.Reserve(value=b"4"),
        history.Put(value=b"5"),
    ]
    assert told(town) == [
        history.Won(version=1),
        history.Won(version=2),
        history.Found(value=b"2", version=2, mutable=True),
        history.Won(version=3),
        history.Won(version=4),
        history.Missing(version=4),
        history.Won(version=5),
        history.Immutable(version=5),
    ]


def test_steps_wait_for_their_time_and_for_the_answer_before() -> None:
    town = Town()
    begin_us = town.world.now_us
    client = town.client(step(Ask.READ, at_us=begin_us + 30_000), step(Ask.READ, at_us=begin_us + 10_000))
    town.pass_ms(29.9)
    assert kinds(town) == []
    finish(town, client)
    first, second = town.recorder.operations.values()
    assert first.returned is not None
    assert first.returned < second.invoked


def test_an_empty_plan_is_done_at_once() -> None:
    assert Town().client().done


# Patience


def test_patience_ends_and_the_operation_stays_open() -> None:
    """It may still take effect while its client goes on, so the client goes on under another name."""
    town = Town(plan_of(1), tracing=True)
    town.machine(A).paused = True
    client = town.client(step(Ask.PUT, value=1), step(Ask.PUT, value=2))
    town.pass_ms(PATIENCE_MS - 1)
    assert (client.unanswered, client.name, len(kinds(town))) == (0, "c", 1)
    town.pass_ms(2)
    town.machine(A).resume()
    finish(town, client)
    first, second = town.recorder.operations.values()
    assert (first.client, first.returned, first.outcome) == ("c", None, history.Unknown())
    assert (second.client, second.outcome) == ("c'", history.Won(version=2))
    assert (client.unanswered, len(client.outcomes)) == (1, 1)
    assert any("client of operation 1 hears no more" in line for line in town.world.trace or [])


def test_an_answer_in_time_ends_the_wait() -> None:
    town = Town()
    client = town.client(step(Ask.PUT))
    finish(town, client)
    town.pass_ms(2 * PATIENCE_MS)
    assert (client.unanswered, client.name) == (0, "c")


def test_a_reader_loses_patience_too() -> None:
    town = Town(plan_of(1))
    town.machine(A).paused = True
    client = town.client(step(Ask.READ), step(Ask.READ))
    town.pass_ms(PATIENCE_MS + 1)
    assert client.unanswered == 1
    town.machine(A).resume()
    finish(town, client)
    assert told(town) == [history.Unknown(), history.Absent(version=0)]


# Crashes


def test_a_client_hears_its_replica_hang_up() -> None:
    town = Town()
    town.machine(A).disk_slow = True
    client = town.client(step(Ask.PUT))
    town.pass_ms(0.01)
    town.machine(A).crash()
    town.pass_ms(0.01)
    assert (client.done, client.unanswered, client.name) == (True, 1, "c'")
    assert told(town) == [history.Unknown()]


def test_a_client_without_open_business_does_not_care() -> None:
    town = Town()
    client = town.client(step(Ask.PUT))
    finish(town, client)
    town.machine(A).crash()
    town.pass_ms(10)
    assert (client.unanswered, client.name) == (0, "c")


@pytest.mark.parametrize(("home", "down", "asked"), [(B, (), "B"), (B, (B,), "C"), (B, (B, C), "A"), (C, (C,), "A")])
def test_a_client_goes_elsewhere_only_while_its_own_datacenter_is_down(
    home: int, down: tuple[int, ...], asked: str
) -> None:
    town = Town(tracing=True)
    for i in down:
        town.machine(i).crash()
    town.client(step(Ask.READ, consistency=Consistency.OPTIMISTIC), home=home)
    town.pass_ms(1)
    assert any(f"c asks {asked}, operation 1: key-0 read linearizable=False" in line for line in town.world.trace or [])


def test_with_everybody_down_it_asks_again_and_nothing_is_recorded_meanwhile() -> None:
    town = Town()
    for machine in town.machines:
        machine.crash()
    clients = town.client(step(Ask.PUT)), town.client(step(Ask.READ), name="d")
    town.pass_ms(1000)
    assert (kinds(town), [client.unanswered for client in clients]) == ([], [0, 0])
    for machine in town.machines:
        machine.start()
    finish(town, *clients)
    assert len(kinds(town)) == 2


# Counters


def test_compare_and_set_counters_add_up() -> None:
    town = Town()
    clients = [town.client(*[step(Ask.COUNT)] * 2, home=home, name=f"c{home}") for home in (A, B, C)]
    finish(town, *clients)
    reader = town.client(step(Ask.READ))
    finish(town, reader)
    won = [outcome for outcome in told(town) if isinstance(outcome, history.Won)]
    last = list(town.recorder.operations.values())[-1].outcome
    assert last == history.Found(value=b"%d" % len(won), version=len(won), mutable=True)
    assert len(won) == 6
    assert any(isinstance(outcome, history.Mismatch) for outcome in told(town)), "nobody was ever in the way"
    assert all(isinstance(verdict, Linearizable) for verdict in check(town.recorder.operations.values()))


def test_increments_add_up() -> None:
    """One request each, and every answer tells the number."""
    town = Town()
    clients = [town.client(*[step(Ask.INCREMENT, value=2)] * 3, home=home, name=f"c{home}") for home in (A, B, C)]
    finish(town, *clients)
    assert kinds(town) == [history.Add(amount=2)] * 9
    numbers = [outcome.value for outcome in told(town) if isinstance(outcome, history.Won)]
    assert sorted(numbers, key=lambda number: int(number or b"")) == [b"%d" % (2 * i) for i in range(1, 10)]
    assert all(isinstance(verdict, Linearizable) for verdict in check(town.recorder.operations.values()))


def test_an_increment_of_a_word_is_refused() -> None:
    town = Town()
    finish(town, town.client(step(Ask.PUT, value=WORD), step(Ask.INCREMENT), step(Ask.COUNT)))
    assert told(town)[:2] == [history.Won(version=1), history.NotAnInteger(version=1)]
    assert kinds(town)[-1] == history.Put(value=b"1", if_version=1), "a counter begins anew"


def test_an_exchange_tells_what_was_there() -> None:
    town = Town()
    finish(town, town.client(step(Ask.EXCHANGE, value=1), step(Ask.EXCHANGE, value=2)))
    assert kinds(town) == [history.Put(value=b"1", returning=True), history.Put(value=b"2", returning=True)]
    assert told(town) == [
        history.Won(version=1, previous=history.Absent(version=0)),
        history.Won(version=2, previous=history.Found(value=b"1", version=1, mutable=True)),
    ]


def test_a_counter_gives_up_after_some_tries() -> None:
    town = Town()

    def always_late(_: Driver, __: Write, answered: Callable[[Outcome], None]) -> None:
        answered(VersionMismatch(committed=None, path=Path.LOCAL))

    with applied((Patch(Driver, "write", always_late),)):
        client = town.client(step(Ask.COUNT))
        finish(town, client)
    writes = [kind for kind in kinds(town) if isinstance(kind, history.Put)]
    assert len(writes) == MAX_COUNT_TRIES


def test_a_counter_ends_with_a_failed_read() -> None:
    town = Town()

    def unreadable(_: Driver, __: bytes, ___: Consistency, answered: Callable[[ReadOutcome], None]) -> None:
        answered(ReadFailed(reason="planted"))

    with applied((Patch(Driver, "read", unreadable),)):
        client = town.client(step(Ask.COUNT))
        finish(town, client)
    assert told(town) == [history.Failed()]


# What is written down


def prop(value: bytes | None = b"x", version: int = 3, *, mutable: bool = True) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(1, 1))


PUT, ADD = history.Put(value=b"x"), history.Add(amount=1)
SWAP, TAKE = history.Put(value=b"x", returning=True), history.Delete(returning=True)
OVER_2 = Committed(proposal=prop(b"7"), mine=True, path=Path.FAST, previous=prop(b"6", 2))

OF_THEIR_KIND: list[tuple[Committed, history.Kind, history.Outcome]] = [
    (OVER_2, PUT, history.Won(version=3)),
    (OVER_2, history.Reserve(value=b"7"), history.Won(version=3)),
    (OVER_2, ADD, history.Won(version=3, value=b"7")),
    (OVER_2, SWAP, history.Won(version=3, previous=history.Found(value=b"6", version=2, mutable=True))),
    (
        Committed(proposal=prop(None), mine=True, path=Path.FAST, previous=prop(None, 2)),
        TAKE,
        history.Won(version=3, previous=history.Absent(version=2)),
    ),
]

OUTCOMES: list[tuple[Outcome, history.Outcome]] = [
    (NotAnInteger(committed=prop(), path=Path.SLOW, reason="a word"), history.NotAnInteger(version=3)),
    (Committed(proposal=prop(), mine=True, path=Path.FAST), history.Won(version=3)),
    (Committed(proposal=prop(), mine=False, path=Path.FAST), history.Same(version=3)),
    (
        ExpectedValueDoesNotMatch(committed=prop(mutable=False), path=Path.SLOW),
        history.Lost(value=b"x", version=3, mutable=False),
    ),
    (VersionMismatch(committed=prop(), path=Path.SLOW), history.Mismatch(version=3)),
    (VersionMismatch(committed=None, path=Path.SLOW), history.Mismatch(version=0)),
    (ImmutableKey(committed=prop(mutable=False), path=Path.SLOW), history.Immutable(version=3)),
    (NothingToDelete(committed=None, path=Path.SLOW), history.Missing(version=0)),
    (NothingToDelete(committed=prop(None), path=Path.SLOW), history.Missing(version=3)),
    (ConsensusFailed(reason="?"), history.Unknown()),
    (Refused(reason="full"), history.Failed()),
]

READS: list[tuple[ReadOutcome, history.Outcome]] = [
    (ReadResult(committed=None, source=Source.QUORUM), history.Absent(version=0)),
    (ReadResult(committed=prop(None), source=Source.QUORUM), history.Absent(version=3)),
    (ReadResult(committed=prop(), source=Source.CACHE), history.Found(value=b"x", version=3, mutable=True)),
    (ReadFailed(reason="?"), history.Failed()),
]

WISHES: list[tuple[Write, history.Kind]] = [
    (Write(key=KEY, value=b"x"), history.Reserve(value=b"x")),
    (Write(key=KEY, value=b"x", mutable=True), history.Put(value=b"x")),
    (Write(key=KEY, value=b"x", mutable=True, if_version=0), history.Put(value=b"x", if_version=0)),
    (Write(key=KEY, value=None, mutable=True, if_version=2), history.Delete(if_version=2)),
    (Write(key=KEY, value=None, mutable=True, returning=True), history.Delete(returning=True)),
    (Write(key=KEY, value=None, mutable=True, amount=-2), history.Add(amount=-2)),
    (Write(key=KEY, value=b"x", mutable=True, returning=True), history.Put(value=b"x", returning=True)),
]


@pytest.mark.parametrize(("outcome", "written"), OUTCOMES)
def test_what_a_writer_is_told_is_written_down(outcome: Outcome, written: history.Outcome) -> None:
    assert recorded(outcome, PUT) == written


@pytest.mark.parametrize(("outcome", "kind", "written"), OF_THEIR_KIND)
def test_an_answer_tells_what_its_kind_asks_for(
    outcome: Committed, kind: history.Kind, written: history.Outcome
) -> None:
    assert recorded(outcome, kind) == written


@pytest.mark.parametrize(("outcome", "written"), READS)
def test_what_a_reader_is_told_is_written_down(outcome: ReadOutcome, written: history.Outcome) -> None:
    assert recorded_read(outcome) == written


@pytest.mark.parametrize(("wish", "written"), WISHES)
def test_what_was_asked_for_is_written_down(wish: Write, written: history.Kind) -> None:
    assert kind_of(wish) == written


def test_no_two_events_of_a_history_share_a_moment() -> None:
    recorder = Recorder()
    first = recorder.invoke("a", KEY, history.Read())
    second = recorder.invoke("b", KEY, history.Read())
    recorder.answer(second, history.Absent(version=0))
    recorder.answer(first, history.Absent(version=0))
    assert [(o.id, o.invoked, o.returned) for o in recorder.operations.values()] == [(1, 1, 4), (2, 2, 3)]


def test_the_judge_hears_every_answer() -> None:
    heard: list[tuple[str, str]] = []

    def write_answered(_: Judge, __: bytes, client: str, ___: Outcome) -> None:
        heard.append(("write", client))

    def read_answered(_: Judge, __: bytes, client: str, ___: ReadOutcome) -> None:
        heard.append(("read", client))

    with applied((Patch(Judge, "write_answered", write_answered), Patch(Judge, "read_answered", read_answered))):
        town = Town()
        finish(town, town.client(step(Ask.PUT), step(Ask.READ)))
    assert heard == [("write", "c (operation 1)"), ("read", "c (operation 2)")]
