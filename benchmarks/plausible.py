"""Refuses to report what cannot be.

A benchmark that measures something else than it says, for instance nodes that pass the delay proxy by, shows it in
figures that no run can have; those end it, and nothing is written down.
"""

from collections.abc import Iterable, Mapping

EARLY_MS = 1.0
"""Below a floor: what the clocks of two processes and the rounding of timers may hide, and no more."""

SLACK = 1.05
"""Of a rate and of a core: two clocks that are read one after the other."""


class Impossible(Exception):
    """A figure that cannot be. What measured it is broken, and nothing of it is to be believed."""


def above_floor(what: str, took_ms: Iterable[float], floor_ms: float) -> None:
    """No commit is faster than light, or than the delay that stands for it."""
    took = list(took_ms)
    if took and min(took) < floor_ms - EARLY_MS:
        raise Impossible(
            f"{what}: {min(took):.1f} ms, and nothing can take less than {floor_ms:.1f} ms; "
            "messages do not pass through the delay"
        )


def sendable(what: str, *, operations: int, in_flight: int, mean_ms: float, most_ms: float, seconds: float) -> None:
    """A closed loop: each of `in_flight` places asks again when it is answered. All answers that ended in the window
    waited, together, no longer than the places were there, counting what began before it."""
    waited_s = operations * mean_ms / 1e3
    if waited_s > in_flight * (seconds + most_ms / 1e3) * SLACK:
        raise Impossible(
            f"{what}: {operations} answers of {mean_ms:.2f} ms in {seconds:.1f} s are more than {in_flight} "
            "requests under way can have; the rate or the latency is not what was measured"
        )


def has_time(what: str, cpu_s: float, seconds: float) -> None:
    """The generator is one thread: it cannot have used more than its one core."""
    if cpu_s > seconds * SLACK:
        raise Impossible(f"{what}: a generator of one thread used {cpu_s:.2f} s of CPU in {seconds:.2f} s")


def all_answered(what: str, heard: Mapping[str, float]) -> None:
    """`heard`: of each source of the figure, how much came from it."""
    silent = sorted(name for name, amount in heard.items() if amount <= 0)
    if silent or not heard:
        raise Impossible(
            f"{what}: nothing came from {', '.join(silent) or 'any source'}; the figure would be of something else"
        )


def took_time(what: str, seconds: float) -> None:
    if seconds <= 0:
        raise Impossible(f"{what}: took {seconds:.3f} s; a moment that it is counted from was never seen")
