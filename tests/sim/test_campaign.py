"""Many runs: the lowest failure is found, nothing depends on who did the work."""

import os
from collections.abc import Iterator

import pytest

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.campaign import Campaign, Tally
from epoxy_sim.keys.simulation import run
from epoxy_sim.members.campaign import Setup
from epoxy_sim.worker_pool import WorkerDied, work

RARE = Setup(workload="per-key", mutant="recover-ignores-votes", n=3)
"""Fails at some seeds and not at others."""


def failing_seeds(setup: Setup, seeds: range) -> list[int]:
    with setup.planted():
        return [seed for seed in seeds if run(setup.plan(seed)).failure is not None]


def test_the_lowest_failing_seed_is_found_and_later_ones_do_not_count() -> None:
    seeds = range(150)
    failing = failing_seeds(RARE, seeds)
    assert 0 < len(failing) < len(seeds)
    summary = Campaign(RARE, seeds.start, seeds.stop).run()
    assert [failed.seed for failed in summary.failed] == failing[:1]
    assert (summary.tally.runs, summary.tally.failures, summary.held) == (failing[0] + 1, 1, False)


def test_keeping_going_counts_all() -> None:
    summary = Campaign(RARE, 0, 60, keep_going=True).run()
    assert [failed.seed for failed in summary.failed] == failing_seeds(RARE, range(60))
    assert summary.tally.runs == 60
    assert summary.tally.failures == len(summary.failed)


def test_two_processes_find_the_same_failure() -> None:
    alone = Campaign(RARE, 0, 150).run()
    shared = Campaign(RARE, 0, 150, jobs=2).run()
    assert (shared.failed, shared.digest, shared.tally) == (alone.failed, alone.digest, alone.tally)


def test_a_digest_tells_campaigns_apart() -> None:
    setup = Setup(workload="mutable")
    digests = {Campaign(setup, first, first + 3).run().digest for first in (0, 1, 0)}
    assert len(digests) == 2
    assert len({setup.digest(run(setup.plan(seed))) for seed in range(5)}) == 5


def test_a_tally_adds_up() -> None:
    setup = Setup(workload="per-key")
    whole = Campaign(setup, 0, 6).run().tally
    parts = Tally()
    for first in (0, 2, 4):
        parts.add(Campaign(setup, first, first + 2).run().tally)
    assert parts == whole
    assert whole.runs == 6
    assert sum(whole.verdicts.values()) > 0


def test_local_answers_are_no_part_of_the_fast_share() -> None:
    assert Tally(paths={"fast": 3, "slow": 1, "local": 9}).fast_share == 0.75
    assert Tally(paths={"local": 9}).fast_share is None


def test_an_interrupt_keeps_what_is_known() -> None:
    def interrupt(tally: Tally, _: float) -> None:
        if tally.runs >= 32:
            raise KeyboardInterrupt

    summary = Campaign(Setup(workload="per-key", n=2), 0, 1000, listener=interrupt).run()
    assert (summary.interrupted, summary.digest, summary.tally.runs) == (True, None, 32)


def test_minutes_go_on_beyond_the_range() -> None:
    """The first chunk is always begun; how many follow is a matter of time."""
    summary = Campaign(Setup(workload="per-key", n=1), 5, 6, minutes=0.001).run()
    assert summary.tally.runs % 16 == 0
    assert summary.first_seed == 5
    assert summary.held


@pytest.mark.parametrize(
    ("setup", "command"),
    [
        (Setup(workload="mutable"), "epoxy sim mutable --replay 9"),
        (Setup(workload="per-key", n=3), "epoxy sim per-key --replay 9 --n 3"),
        (
            Setup(workload="mutable", policy=QuorumPolicy.FAST_PAXOS, mutant="no-behind"),
            "epoxy sim mutable --replay 9 --policy fast-paxos --mutant no-behind",
        ),
        (Setup(workload="per-key", mutant="as-described"), "epoxy sim as-described --replay 9"),
    ],
)
def test_the_replay_command_says_all(setup: Setup, command: str) -> None:
    assert setup.replay_command(9) == command


def double(number: int) -> int:
    return 2 * number


def die(number: int) -> int:
    os._exit(number)


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_crew_does_all_the_work(jobs: int) -> None:
    assert sorted(work(double, iter(range(10)), jobs)) == [2 * i for i in range(10)]


def test_tasks_are_drawn_one_at_a_time() -> None:
    """So that what came out so far can end them."""
    done: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(100):
            if done:
                return
            yield number

    done.extend(work(double, tasks(), 1))
    assert done == [0]


def test_a_worker_that_dies_is_not_waited_for() -> None:
    with pytest.raises(WorkerDied):
        list(work(die, iter([1, 2]), 2))
