"""When alarms ring, with a wall clock that is set."""

from epoxy.actors import directory
from epoxy.actors.alarms import AT_ONCE, LOOK_MS, Alarms
from epoxy.store.memory import MemoryStore
from tests.protocol.placement.bench import Clock


class Bench:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = Clock()
        self.offset_ms = 1_000_000
        self.rung: list[tuple[bytes, int]] = []
        self.alarms = Alarms(self.store, self.clock, self.wall_ms, self.ring)
        self.alarms.start()

    def wall_ms(self) -> int:
        return int(self.clock.now_ms()) + self.offset_ms

    def ring(self, actor_id: bytes, due_ms: int, now_ms: int) -> None:
        assert now_ms == self.wall_ms()
        self.store.transact(lambda tx: tx.clear(directory.alarm_row(due_ms, actor_id)))
        self.rung.append((actor_id, now_ms))

    def set(self, actor_id: bytes, after_ms: int) -> int:
        due_ms = self.wall_ms() + after_ms
        self.store.transact(lambda tx: tx.set(directory.alarm_row(due_ms, actor_id), b""))
        self.alarms.expect(due_ms)
        return due_ms


def test_alarms_ring_in_time_and_in_their_order() -> None:
    here = Bench()
    late, soon = here.set(b"late", 5_000), here.set(b"soon", 70)
    here.clock.advance(69)
    assert here.rung == []
    here.clock.advance(1)
    assert here.rung == [(b"soon", soon)]
    here.clock.advance(60_000)
    assert here.rung == [(b"soon", soon), (b"late", late)]


def test_one_timer_waits_however_many_there_are() -> None:
    here = Bench()
    for number in range(3 * AT_ONCE):
        here.set(b"%d" % number, 200 + number % 7)
    assert len(here.clock.timers) == 1
    here.clock.advance(210)
    assert len(here.rung) == 3 * AT_ONCE
    here.alarms.stop()
    assert here.clock.timers == []


def test_a_clock_that_is_set_forward_rings_within_a_second() -> None:
    here = Bench()
    here.set(b"a", 86_400_000)
    here.clock.advance(1)
    here.offset_ms += 90_000_000
    here.clock.advance(LOOK_MS)
    assert [actor_id for actor_id, _ in here.rung] == [b"a"]


def test_a_clock_that_is_set_back_rings_when_its_time_comes_again() -> None:
    here = Bench()
    here.set(b"a", 1_000)
    here.offset_ms -= 5_000
    here.clock.advance(5_999)
    assert here.rung == []
    here.clock.advance(1)
    assert len(here.rung) == 1
