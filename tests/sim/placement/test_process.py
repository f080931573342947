"""The event loop of a simulated worker: tasks in virtual time, and clocks, timers and threads in a standstill."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random

import pytest

from epoxy_sim.placement.process import SimProcess, Standstill, Waits
from epoxy_sim.world import World


def made() -> tuple[World, SimProcess]:
    world = World()
    return world, SimProcess(world, 1.0, Random(1))


def begin(code: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.get_running_loop().create_task(code())


def pass_time(world: World, time_us: int) -> None:
    over: list[bool] = []
    world.after(time_us, lambda: over.append(True))
    world.run_until(lambda: bool(over), world.now_us + time_us)


def test_tasks_queues_and_timeouts_run_in_virtual_time() -> None:
    world, process = made()
    told: list[object] = []

    async def code() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        asyncio.get_running_loop().call_later(2.0, queue.put_nowait, 7)
        told.append(await queue.get())
        told.append(world.now_us)
        try:
            async with asyncio.timeout(3.0):
                await queue.get()
        except TimeoutError:
            told.append(world.now_us)
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(1.0))
        told.append(world.now_us)

    process.run(lambda: begin(code))
    pass_time(world, 10_000_000)
    assert told == [7, 2_000_000, 5_000_000, 6_000_000]


def test_an_error_that_no_code_catches_ends_the_run() -> None:
    world, process = made()

    def broken() -> None:
        raise ValueError("a bug")

    process.loop.call_soon(broken)
    with pytest.raises(ValueError, match="a bug"):
        pass_time(world, 1)


@pytest.mark.parametrize("kind", list(Standstill))
def test_what_goes_on_while_a_process_stands_still(kind: Standstill) -> None:
    world, process = made()
    told: list[tuple[str, int]] = []
    process.call_later(1_000, lambda: told.append(("timer", world.now_us)))
    process.in_thread_later(1_000, lambda: told.append(("thread", world.now_us)))
    process.stand_still(kind, 5_000_000)
    process.run(lambda: told.append(("message", world.now_us)))
    pass_time(world, 10_000_000)
    happened = dict(told)
    assert happened["message"] == 5_000_000
    assert happened["timer"] == (6_000_000 if kind is Standstill.SUSPEND else 5_000_000)
    assert (happened["thread"] == 1_000_000) == (kind is Standstill.BLOCK)
    assert process.boottime_ms() == 10_000
    assert process.monotonic_ms() == (5_000 if kind is Standstill.SUSPEND else 10_000)


def test_messages_stay_in_order_and_turns_that_were_due_come_first() -> None:
    world, process = made()
    told: list[str] = []
    process.stand_still(Standstill.STOP, 1_000)
    process.run(lambda: told.append("one"))
    process.run(lambda: told.append("two"))
    process.run(lambda: told.append("turn"), Waits.TURN)
    pass_time(world, 2_000)
    assert told == ["turn", "one", "two"]


def test_a_process_that_has_ended_does_nothing_more() -> None:
    world, process = made()
    told: list[str] = []

    async def code() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            told.append("cleaned up")

    process.run(lambda: begin(code))
    process.call_later(10, lambda: told.append("timer"))
    pass_time(world, 1)
    process.end()
    told.clear()
    pass_time(world, 2_000_000)
    assert told == []
