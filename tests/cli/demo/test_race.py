"""Two regions and one name: who won, what both were told, and what that is in words."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from epoxy.cli.demo import race
from epoxy.cli.demo.race import Lane, Race, Racer
from epoxy.client import Client
from epoxy.model.errors import EpoxyError, InvalidRequest, Timeout, Unavailable
from epoxy.model.writes import Path


class OneName:
    """What two clients of one cluster see: the first to reserve has it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.taken: dict[str, str] = {}
        self.together = 0

    def lane(self, region: str, error: EpoxyError | None = None) -> Lane:
        client = ClientOf(self, error)
        return Lane(region=region, open=cast(Callable[[], Client], lambda: client), floor_ms=70.5)

    def reserve(self, key: str, value: str) -> Any:
        with self._lock:
            self.together += 1
            won = self.taken.setdefault(key, value) == value
            return SimpleNamespace(won=won, value=self.taken[key].encode(), path=Path.FAST if won else Path.SLOW)


class ClientOf:
    def __init__(self, name: OneName, error: EpoxyError | None) -> None:
        self._name = name
        self._error = error

    def __enter__(self) -> "ClientOf":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def status(self) -> None:
        if self._error is not None:
            raise self._error

    def reserve(self, key: str, value: str) -> Any:
        if self._error is not None:
            raise self._error
        return self._name.reserve(key, value)


def test_exactly_one_wins_and_the_other_is_told_who() -> None:
    name = OneName()
    told = race.run("user/ada", [name.lane("east"), name.lane("west")])
    assert (told.key, told.winner) == ("user/ada", name.taken["user/ada"])
    assert sorted(racer.outcome for racer in told.racers) == ["taken", "won"]
    assert {racer.value for racer in told.racers} == {told.winner}
    assert min(racer.began_ms for racer in told.racers) == 0.0
    assert all(racer.ended_ms >= racer.began_ms for racer in told.racers)
    assert name.together == 2


@pytest.mark.parametrize(
    ("error", "outcome", "winner"),
    [(Unavailable("no quorum"), "refused", "west"), (Timeout("too long"), "unknown", "west")],
)
def test_a_region_that_cannot(error: EpoxyError, outcome: str, winner: str) -> None:
    name = OneName()
    told = race.run("k", [name.lane("east", error), name.lane("west")])
    assert (told.racers[0].outcome, told.racers[0].message, told.winner) == (outcome, str(error), winner)


def racer(region: str, outcome: Any, value: str = "", **more: Any) -> Racer:
    return Racer(region=region, outcome=outcome, began_ms=0.0, ended_ms=80.4, value=value, **more)


def test_a_winner_that_was_not_told_is_known_from_the_other() -> None:
    told = race.judged("k", [racer("east", "unknown"), racer("west", "taken", "east")])
    assert told.winner == "east"
    assert race.judged("k", [racer("east", "unknown"), racer("west", "refused")]).winner is None


def test_in_words() -> None:
    told = race.in_words(
        Race(
            key="race/1",
            winner="east",
            racers=[
                racer("east", "won", "east", path="fast", floor_ms=70.5),
                racer("west", "taken", "east", path="slow"),
                racer("north", "unknown", message="timeout"),
                racer("south", "refused", message="no quorum"),
            ],
        )
    )
    assert told == [
        "east has race/1 now, in the whole world and for ever.",
        "  east            won after 80 ms (its floor: 70 ms), in one round trip",
        "  west            was told after 80 ms that east has it",
        "  north           does not know its outcome after 80 ms: timeout",
        "  south           did not take part: no quorum",
    ]
    assert race.in_words(Race(key="k", racers=[], winner=None))[0].startswith("It is not known who has k")


def test_a_name_is_a_key() -> None:
    for key in ("", "x" * 1025):
        with pytest.raises(InvalidRequest, match="1 to 1024 bytes"):
            race.run(key, [])
    assert race.fresh_name() != race.fresh_name()


def test_a_value_of_another_client_is_cut_and_steers_no_terminal() -> None:
    name = OneName()
    name.taken["k"] = "\x1b]0;title\x07" + "v" * 1_000_000
    told = race.run("k", [name.lane("east"), name.lane("west")])
    assert all(len(racer.value) == race.SHOWN_LETTERS + len("...") for racer in told.racers)
    assert all(line.isprintable() for line in race.in_words(told))
    assert race.in_words(told)[0].startswith(r"\x1b]0;title\x07vvv")
