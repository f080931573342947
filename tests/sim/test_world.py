"""Virtual time."""

from epoxy_sim.world import World


def never() -> bool:
    return False


def test_things_happen_in_the_order_of_time_and_then_of_arrangement() -> None:
    world, told = World(), list[str]()
    for name, delay_us in (("b1", 20), ("a1", 10), ("b2", 20), ("a2", 10), ("now", 0)):
        world.after(delay_us, lambda name=name: told.append(name))  # type: ignore[misc]
    assert not world.run_until(never, 100)
    assert told == ["now", "a1", "a2", "b1", "b2"]
    assert (world.now_us, world.happened) == (20, 5)


def test_what_is_arranged_for_this_moment_comes_after_what_was() -> None:
    world, told = World(), list[str]()

    def first() -> None:
        told.append("first")
        world.after(0, lambda: told.append("third"))

    world.after(5, first)
    world.after(5, lambda: told.append("second"))
    world.run_until(never, 5)
    assert told == ["first", "second", "third"]


def test_the_past_is_over() -> None:
    world, times = World(), list[int]()

    def too_late() -> None:
        world.after(-7, lambda: times.append(world.now_us))

    world.after(10, too_late)
    world.run_until(never, 100)
    assert times == [10]


def test_what_is_cancelled_does_not_happen() -> None:
    world, told = World(), list[str]()
    event = world.after(10, lambda: told.append("cancelled"))
    world.after(5, event.cancel)
    world.after(11, lambda: told.append("kept"))
    world.run_until(never, 100)
    assert told == ["kept"]
    assert world.happened == 2


def test_cancelling_late_or_twice_is_nothing() -> None:
    world, told = World(), list[str]()
    event = world.after(1, lambda: told.append("x"))
    world.run_until(never, 1)
    event.cancel()
    event.cancel()
    assert told == ["x"]


def test_a_deadline_includes_its_moment_and_nothing_later() -> None:
    world, told = World(), list[int]()
    for delay_us in (9, 10, 11):
        world.after(delay_us, lambda delay_us=delay_us: told.append(delay_us))  # type: ignore[misc]
    assert not world.run_until(never, 10)
    assert told == [9, 10]
    assert world.now_us == 10
    assert not world.run_until(never, 11)
    assert told == [9, 10, 11]


def test_it_stops_as_soon_as_it_is_finished() -> None:
    world, told = World(), list[int]()
    for delay_us in (1, 2, 3):
        world.after(delay_us, lambda delay_us=delay_us: told.append(delay_us))  # type: ignore[misc]
    assert world.run_until(lambda: len(told) == 2, 100)
    assert told == [1, 2]
    assert world.run_until(lambda: True, 0)
    assert world.now_us == 2


def test_nothing_left_to_happen_is_not_an_end() -> None:
    assert not World().run_until(never, 100)


def test_notes_carry_the_time_and_cost_nothing_untraced() -> None:
    world = World(tracing=True)
    world.after(1234, lambda: world.note("here"))
    world.run_until(never, 2000)
    assert world.trace == ["     1.234 ms  here"]
    silent = World()
    silent.note("unheard")
    assert silent.trace is None
