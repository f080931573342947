"""The mean time of fast rounds, and what is passed on."""

from epoxy.model.writes import Path
from epoxy.node.keys.latency import RoundLatency


class Counted:
    def __init__(self) -> None:
        self.seen: list[tuple[str, Path | None, float, int, int, int]] = []

    def proposal_done(
        self, outcome: str, path: Path | None, seconds: float, *, prepares: int = 0, retries: int = 0, bumps: int = 0
    ) -> None:
        self.seen.append((outcome, path, seconds, prepares, retries, bumps))


def test_the_mean_is_of_fast_rounds_since_it_was_asked_for() -> None:
    latency = RoundLatency()
    assert latency.mean_ms() == 0.0
    latency.proposal_done("Committed", Path.FAST, 0.1)
    latency.proposal_done("Committed", Path.FAST, 0.3)
    assert latency.mean_ms() == 200.0
    assert latency.mean_ms() == 0.0


def test_other_paths_and_failures_do_not_count() -> None:
    latency = RoundLatency()
    for path in (Path.SLOW, Path.LOCAL, None):
        latency.proposal_done("whatever", path, 5.0)
    assert latency.mean_ms() == 0.0


def test_everything_is_passed_on() -> None:
    latency, counted = RoundLatency(), Counted()
    latency.then = counted
    latency.proposal_done("Committed", Path.SLOW, 0.2, prepares=3, retries=2, bumps=1)
    assert counted.seen == [("Committed", Path.SLOW, 0.2, 3, 2, 1)]
