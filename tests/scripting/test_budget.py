"""When a run is looked at again, and when it is over."""

from epoxy.scripting.budget import OVER, ScriptBudget
from epoxy.scripting.limits import ScriptLimits

LIMITS = ScriptLimits(cpu_s=1, instructions=250, interval=100, heavy_interval=4, heavy_bytes=2048, saved_s=10)


def test_time_is_counted_from_the_beginning_of_a_run() -> None:
    now = 5.0
    budget = ScriptBudget(LIMITS, lambda: now)
    budget.begin()
    now = 6.0
    assert budget.pace(0) == 100
    now = 6.1
    assert budget.pace(0) == OVER
    budget.begin()
    assert (budget.pace(0), budget.checks) == (100, 1)


def test_instructions_are_counted_by_the_intervals_between_checks() -> None:
    budget = ScriptBudget(LIMITS, lambda: 0.0)
    budget.begin()
    assert [budget.pace(0) for _ in range(5)] == [100, 100, 100, OVER, OVER]


def test_an_interpreter_that_holds_much_is_looked_at_more_often() -> None:
    budget = ScriptBudget(LIMITS, lambda: 0.0)
    budget.begin()
    assert [budget.pace(kib) for kib in (2, 2.5, 2)] == [100, 4, 100]


def test_runs_that_take_long_use_up_what_all_scripts_share() -> None:
    """Ten that loop, at once: each is ended, the later ones soon. What passes meanwhile fills the share again."""
    limits = ScriptLimits(cpu_s=5, saved_s=20, share=0.25, least_s=1, instructions=10**9, interval=1)
    used = passed = 0.0
    budget = ScriptBudget(limits, lambda: used, lambda: passed)

    def looping() -> float:
        nonlocal used, passed
        began = used
        with budget.charging():
            budget.begin()
            while budget.pace(0) != OVER:
                used += 0.5
                passed += 5
        return used - began

    assert [looping() for _ in range(8)] == [5.5, 5.5, 5.5, 5.5, 3.5, 1.5, 1.5, 1.5]
    passed += 16
    assert looping() == 3.5
    passed += 1000
    assert looping() == 5.5


def test_short_runs_cost_nothing_of_the_share() -> None:
    limits = ScriptLimits(cpu_s=5, saved_s=20, least_s=1, instructions=10**9)
    used = 0.0
    budget = ScriptBudget(limits, lambda: used, lambda: 0.0)
    for _ in range(1000):
        with budget.charging():
            budget.begin()
            used += 1
    budget.begin()
    used += 4.9
    assert budget.pace(0) != OVER
