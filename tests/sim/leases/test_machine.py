"""Clocks and timers of suspended machines."""

import pytest
from msgspec.structs import replace

from epoxy_sim.keys.plan import ClockStep
from epoxy_sim.leases.generate import generate
from epoxy_sim.leases.machine import LeaseLife
from epoxy_sim.leases.simulation import LeaseSimulation


def suspended(*, suspends: bool) -> tuple[float, list[int]]:
    """How far the clock goes while the machine sleeps for five seconds, and when a timer of two seconds rings."""
    plan = replace(generate(4), suspends=suspends, skew=(1.0,) * generate(4).n)
    simulation = LeaseSimulation(plan, tracing=False)
    machine, world = simulation.machines[0], simulation.world
    machine.start()
    life, rang = machine.life, list[int]()
    assert isinstance(life, LeaseLife)
    world.run_until(lambda: False, 1_000_000)
    world.now_us = 1_000_000
    before_ms = life.now_ms()
    life.call_later(2_000, lambda: rang.append(world.now_us))
    machine.pause()
    world.after(5_000_000, machine.resume)
    world.run_until(lambda: bool(rang), 20_000_000)
    return life.now_ms() - before_ms, rang


def test_the_clock_goes_on_while_a_machine_is_suspended_and_its_timers_do_not() -> None:
    passed_ms, rang = suspended(suspends=True)
    assert rang == [8_000_000]
    assert passed_ms == pytest.approx(7_000)


def test_the_timers_of_a_stopped_process_ring_as_soon_as_it_goes_on() -> None:
    passed_ms, rang = suspended(suspends=False)
    assert rang == [6_000_000]
    assert passed_ms == pytest.approx(5_000)


def test_the_calendar_is_set_and_the_clock_is_not() -> None:
    plan = replace(generate(4), clock_steps=(ClockStep(at_us=2_000_000, machine=1, by_ms=-500),))
    plan = replace(plan, skew=(1.0,) * plan.n)
    simulation = LeaseSimulation(plan, tracing=False)
    machine = simulation.machines[0]
    machine.start()
    life = machine.life
    assert isinstance(life, LeaseLife)
    now_ms, wall_ms = life.now_ms(), life.wall_ms()
    simulation.world.now_us = 3_000_000
    assert life.now_ms() - now_ms == pytest.approx(3_000)
    assert life.wall_ms() - wall_ms == pytest.approx(2_500)
