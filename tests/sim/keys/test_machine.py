"""A simulated datacenter: what crashes leave, what pauses keep, and a disk that fails without a lie."""

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.errors import StoreFailed
from epoxy.model.messages import CommitOk, PrepareOk, Read, ReadOk
from epoxy.model.records import KeyState
from epoxy.model.writes import Committed, Outcome, Write
from epoxy_sim.disk.memory_disk import MemoryDisk
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.plan import FaultKind
from epoxy_sim.patching import Patch, applied
from epoxy_sim.simulation import Violation
from tests.sim.keys.bench import KEY, Town, commit, plan_of, prepare, proposal

A, B, C = 1, 2, 3


def promising() -> Town:
    """Ballot 2 is promised and synced, 3 is being synced, 4 and 5 wait."""
    town = Town()
    assert town.handle(A, prepare(2)) == []
    town.pass_ms(1)
    for counter in (3, 4, 5):
        town.handle(A, prepare(counter))
    return town


@pytest.mark.parametrize(("keep", "left"), [(0.0, 2), (0.3, 2), (0.34, 3), (0.67, 4), (0.99, 4), (1.0, 5)])
def test_a_crash_loses_the_unsynced_and_nothing_else(keep: float, left: int) -> None:
    town = promising()
    town.machine(A).crash(keep)
    assert town.machine(A).life is None
    town.machine(A).start()
    assert town.state(A).promised == Ballot(left, A)


def test_what_a_crash_leaves_is_a_prefix_also_across_keys() -> None:
    town = Town()
    for number in range(4):
        town.handle(A, prepare(2, key=b"%d" % number))
    town.machine(A).crash(keep=0.5)
    town.machine(A).start()
    assert [town.state(A, b"%d" % number).promised != NO_BALLOT for number in range(4)] == [True, True, False, False]


def test_a_second_crash_loses_what_the_first_life_of_it_kept() -> None:
    """Kept rows count as written: they are on the disk the next life starts from."""
    town = promising()
    town.machine(A).crash(keep=1.0)
    town.machine(A).start()
    town.machine(A).crash(keep=0.0)
    town.machine(A).start()
    assert town.state(A).promised == Ballot(5, A)
    assert town.machine(A).lives == 3


def test_crashes_and_starts_out_of_turn_are_nothing() -> None:
    town = Town()
    life = town.life(A)
    town.machine(A).start()
    assert town.life(A) is life
    town.machine(A).crash()
    town.machine(A).crash(keep=1.0)
    assert (town.machine(A).life, town.machine(A).lives) == (None, 1)


def test_nothing_of_an_earlier_life_goes_on() -> None:
    town, told = Town(), list[str]()
    life = town.life(A)
    life.call_later(1, lambda: told.append("timer"))
    replies = town.handle(A, prepare(2))
    town.machine(A).crash(keep=1.0)
    town.machine(A).start()
    life.run(lambda: told.append("run"))
    town.pass_ms(10)
    assert (told, replies) == ([], [])


def test_a_restarted_replica_is_compared_with_what_was_durable() -> None:
    town = promising()

    def amnesia(disk: MemoryDisk, _: float) -> None:
        disk._contents = {}

    with applied((Patch(MemoryDisk, "crash", amnesia),)):
        town.machine(A).crash()
    with pytest.raises(Violation) as caught:
        town.machine(A).start()
    assert caught.value.rule == "durable state lost"


# Pauses


def test_a_pause_keeps_mail_and_timers_for_later() -> None:
    town, told = Town(), list[str]()
    mail, life = town.mailbox(B), town.life(B)
    life.call_later(2, lambda: told.append("timer"))
    town.machine(B).paused = True
    replies = town.send(A, B, prepare(2)), town.send(A, B, prepare(3))
    town.pass_ms(5000)
    assert (told, mail, replies) == ([], [], ([], []))
    town.machine(B).resume()
    town.pass_ms(0)
    assert (told, mail) == (["timer"], [prepare(2), prepare(3)])
    town.pass_ms(10)
    assert replies == ([PrepareOk(vote=None)], [PrepareOk(vote=None)])


def test_a_disk_finishes_while_the_process_is_paused_but_nobody_is_told() -> None:
    town = Town()
    replies = town.handle(A, prepare(2))
    town.machine(A).paused = True
    town.pass_ms(1000)
    assert replies == []
    town.machine(A).resume()
    town.pass_ms(1)
    assert replies == [PrepareOk(vote=None)]


def test_a_crash_ends_what_a_pause_kept() -> None:
    town = Town()
    mail = town.mailbox(B)
    town.machine(B).paused = True
    town.send(A, B, prepare(2))
    town.pass_ms(10)
    town.machine(B).crash()
    town.machine(B).start()
    town.machine(B).resume()
    town.pass_ms(10)
    assert mail == []
    assert town.state(B) == KeyState()


def test_mail_kept_by_a_pause_is_not_for_the_next_life() -> None:
    town = Town()
    life, told = town.life(B), list[str]()
    town.machine(B).paused = True
    life.run(lambda: told.append("x"))
    town.machine(B).resume()
    town.machine(B).crash()
    town.machine(B).start()
    town.pass_ms(10)
    assert told == []


# Disks


def test_a_slow_disk_is_slow() -> None:
    town = Town()
    town.machine(A).disk_slow = True
    waits = [wait_ms(town, counter) for counter in range(2, 12)]
    assert max(waits) > 50
    town.machine(A).disk_slow = False
    waits = [wait_ms(town, counter) for counter in range(12, 22)]
    assert max(waits) <= 0.5


def wait_ms(town: Town, counter: int) -> float:
    begin, replies = town.world.now_us, town.handle(A, prepare(counter))
    assert town.world.run_until(lambda: len(replies) == 1, begin + 1_000_000)
    return (town.world.now_us - begin) / 1000


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("fault", "reason"), [("fsync_fails", "fsync failed"), ("disk_full", "no space left")])
def test_a_failing_disk_stops_the_process_before_it_can_lie(fault: str, reason: str, seed: int) -> None:
    town = Town(plan_of(seed=seed), tracing=True)
    machine = town.machine(A)
    acknowledged = town.handle(A, prepare(2))
    town.pass_ms(1)
    setattr(machine, fault, True)
    hopes = [town.handle(A, prepare(counter)) for counter in (3, 4, 5)]
    town.pass_ms(1000)
    assert machine.life is None
    assert len(machine.stops) == 1
    assert reason in machine.stops[0]
    assert any(f"A stops: {machine.stops[0]}" in line for line in town.world.trace or [])
    assert (len(acknowledged), hopes) == (1, [[], [], []])
    machine.disk_full = False
    machine.start()
    town.pass_ms(1)
    assert Ballot(2, A) <= town.state(A).promised <= Ballot(5, A)


def test_a_disk_that_is_still_full_stops_the_next_life_too() -> None:
    town = Town()
    machine = town.machine(A)
    machine.disk_full = True
    town.handle(A, prepare(2))
    town.pass_ms(1)
    assert machine.life is None
    machine.start()
    town.pass_ms(1)
    assert len(machine.stops) == 2
    assert machine.life is None, "its start must be on the disk"


def test_one_failed_fsync_is_one() -> None:
    town = Town()
    machine = town.machine(A)
    machine.fsync_fails = True
    town.handle(A, prepare(2))
    town.pass_ms(1)
    machine.start()
    replies = town.handle(A, prepare(6))
    town.pass_ms(1)
    assert (len(replies), len(machine.stops)) == (1, 1)


def test_who_only_reads_does_not_notice_a_failing_disk() -> None:
    town = Town()
    town.machine(A).fsync_fails = True
    assert town.handle(A, Read(key=KEY, epoch=1)) == [ReadOk(committed=None, vote=None)]
    town.pass_ms(100)
    assert town.machine(A).stops == []


def test_a_store_that_fails_in_a_living_process_is_a_bug_of_ours() -> None:
    town = Town()
    life = town.life(A)

    def failing() -> None:
        raise StoreFailed("planted")

    with pytest.raises(StoreFailed):
        life.run(failing)

    def dying() -> None:
        town.machine(A).crash()
        failing()

    life.run(dying)
    assert town.machine(A).life is None


# Clocks


def test_a_fast_clock_rings_early_and_shows_a_later_time() -> None:
    town = Town(plan_of(skew=(1.0, 2.0, 0.5)))
    begin_us, rings = town.world.now_us, dict[int, int]()
    for i in (A, B, C):
        life = town.life(i)
        life.call_later(100, lambda i=i: rings.update({i: town.world.now_us - begin_us}))  # type: ignore[misc]
    town.pass_ms(300)
    assert rings == {A: 100_000, B: 50_000, C: 200_000}
    true_ms = town.world.now_us / 1000
    assert [town.life(i).now_ms() for i in (A, B, C)] == [true_ms, 2 * true_ms, true_ms / 2]


def test_dice_go_on_across_lives() -> None:
    """A nonce that came twice would give two writes one name."""
    town = Town()
    first = [town.life(A).nonce() for _ in range(3)]
    town.machine(A).crash()
    town.machine(A).start()
    later = [town.life(A).nonce() for _ in range(3)]
    others = [town.life(B).nonce() for _ in range(3)]
    assert len({*first, *later, *others}) == 9
    assert 0.0 <= town.life(A).uniform() < 1.0


# Traps


def write(town: Town, machine_id: int = A) -> list[Outcome]:
    outcomes: list[Outcome] = []
    life = town.life(machine_id)
    wish = Write(key=KEY, value=b"v")
    life.run(lambda: life.driver.write(wish, life.answering(outcomes.append)))
    return outcomes


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_trap_springs_in_the_middle_of_a_round(count: int) -> None:
    """Of four Accepts, some leave and some do not. The own vote was durable before the first."""
    town = Town(plan_of(5))
    mails = [town.mailbox(i) for i in range(2, 6)]
    machine = town.machine(A)
    machine.trap, machine.trap_count = FaultKind.CRASH_ON_SEND, count
    outcomes = write(town)
    town.pass_ms(100)
    assert [len(mail) for mail in mails] == [1] * count + [0] * (4 - count)
    assert (outcomes, machine.life) == ([], None)
    machine.start()
    assert town.state(A).vote is not None


def test_a_trap_springs_right_behind_an_answer() -> None:
    town = Town()
    machine = town.machine(A)
    machine.trap, machine.trap_count = FaultKind.CRASH_ON_ANSWER, 1
    outcomes = write(town)
    town.pass_ms(100)
    (outcome,) = outcomes
    assert isinstance(outcome, Committed)
    assert machine.life is None
    machine.start()
    assert town.state(A).committed == outcome.proposal


def test_a_trap_waits_for_its_number_and_its_kind() -> None:
    town = Town()
    machine = town.machine(A)
    machine.trap, machine.trap_count = FaultKind.CRASH_ON_ANSWER, 2
    write(town)
    town.pass_ms(100)
    assert machine.life is not None
    write(town)
    town.pass_ms(100)
    assert machine.life is None


# What the judge is told


def test_the_judge_hears_of_every_step_and_of_what_is_durable() -> None:
    steps: list[tuple[Ballot, Ballot]] = []
    durable: list[Ballot] = []

    def stepped(_: Judge, __: int, ___: bytes, before: KeyState, after: KeyState) -> None:
        steps.append((before.promised, after.promised))

    def lasts(_: Judge, __: int, ___: bytes, state: KeyState) -> None:
        durable.append(state.promised)

    with applied((Patch(Judge, "stepped", stepped), Patch(Judge, "durable", lasts))):
        town = Town()
        town.handle(A, prepare(2))
        town.handle(A, prepare(3))
        assert (steps, durable) == ([(NO_BALLOT, Ballot(2, A)), (Ballot(2, A), Ballot(3, A))], [])
        town.pass_ms(5)
    assert durable == [Ballot(2, A), Ballot(3, A)]


@pytest.mark.parametrize("keep", [0.0, 1.0])
def test_the_judge_hears_of_what_a_crash_kept_although_it_was_not_durable(keep: float) -> None:
    """As soon as the next process has it on the disk."""
    town = Town()
    town.handle(A, commit(b"one"))
    town.machine(A).crash(keep)
    town.machine(A).start()
    assert town.judge.decided(KEY) is None
    town.pass_ms(5)
    assert town.judge.decided(KEY) == (proposal(b"one") if keep else None)


def test_a_conflict_is_an_alarm_and_an_alarm_is_a_violation() -> None:
    town = Town()
    replies = town.handle(A, commit(b"one"))
    town.pass_ms(5)
    assert replies == [CommitOk()]
    with pytest.raises(Violation) as caught:
        town.handle(A, commit(b"two"))
    assert caught.value.rule == "alarm"
    assert town.state(A).committed == proposal(b"one")
