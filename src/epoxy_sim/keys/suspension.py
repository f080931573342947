"""A simulated machine whose clock goes on while it is suspended, and whose timers do not: CLOCK_BOOTTIME, and what an
event loop waits by."""

from collections.abc import Callable
from random import Random

from epoxy_sim.keys import machine as per_key
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.network import Network
from epoxy_sim.keys.plan import ClusterPlan
from epoxy_sim.world import Action, Event, World

LONGEST_UPTIME_MS = 10_000_000


class SuspendedMachine(per_key.Machine):
    """With `plan.suspends` a pause is a suspend of the whole machine; otherwise its process alone is stopped."""

    def __init__(self, machine_id: int, world: World, network: Network, judge: Judge, plan: ClusterPlan) -> None:
        super().__init__(machine_id, world, network, judge, plan)
        self._uptimes = Random(f"uptime/{machine_id}/{plan.seed}")
        self._slept_us = 0
        self._fell_asleep_us: int | None = None

    def new_life(self) -> "SuspendedLife":
        """A start may be one of the whole machine, whose clock then begins anywhere."""
        return SuspendedLife(self, self._draw_uptime_ms())

    def _draw_uptime_ms(self) -> float:
        return self._uptimes.uniform(0, LONGEST_UPTIME_MS)

    def start(self) -> None:
        before = self.life
        super().start()
        if self.life is not None and self.life is not before:
            self.run(self.life, self.life.driver.leases.load)

    def pause(self) -> None:
        super().pause()
        if self.plan.suspends and self._fell_asleep_us is None:
            self._fell_asleep_us = self.world.now_us

    @property
    def slept_us(self) -> int:
        asleep_us = self.world.now_us - self._fell_asleep_us if self._fell_asleep_us is not None else 0
        return self._slept_us + asleep_us

    def resume(self) -> None:
        self._woke_up()
        super().resume()

    def crash(self, keep: float = 0.0) -> None:
        self._woke_up()
        super().crash(keep)

    def _woke_up(self) -> None:
        self._slept_us, self._fell_asleep_us = self.slept_us, None


class AwakeTimer:
    """Rings when its machine has been awake for so long. One that is cancelled does not, even if it was due while its
    process was paused: neither does a timer of asyncio."""

    def __init__(self, life: "SuspendedLife", delay_us: int, then: Action) -> None:
        self._life = life
        self._then = then
        self._is_cancelled = False
        self._begin(delay_us)

    def _begin(self, delay_us: int) -> None:
        self._slept_us = self._life.machine.slept_us
        self._event: Event = self._life.machine.world.after(delay_us, self._over)

    def _over(self) -> None:
        missed_us = self._life.machine.slept_us - self._slept_us
        if missed_us:
            self._begin(missed_us)
        else:
            self._life.run(self._ring)

    def _ring(self) -> None:
        if not self._is_cancelled:
            self._then()

    def cancel(self) -> None:
        self._is_cancelled = True
        self._event.cancel()


class SuspendedLife(per_key.Life):
    machine: SuspendedMachine

    def __init__(self, machine: SuspendedMachine, uptime_ms: float) -> None:
        self._uptime_ms = uptime_ms
        super().__init__(machine)

    def now_ms(self) -> float:
        return self._uptime_ms + super().now_ms()

    def wall_ms(self) -> float:
        """The calendar, which may be set at any time."""
        now_us, me = self.machine.world.now_us, self.machine.id
        steps = (step.by_ms for step in self.machine.plan.clock_steps if step.machine == me and step.at_us <= now_us)
        return super().now_ms() + sum(steps)

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Event:
        timer: Event = AwakeTimer(self, int(delay_ms * 1000 / self.machine.clock_rate), then)  # type: ignore[assignment]
        return timer
