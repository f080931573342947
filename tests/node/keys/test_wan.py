"""What rivals for one key wait for, across a WAN: in virtual time, so a figure is the rule's and not the machine's."""

import pytest

from epoxy.model.messages import Accept
from epoxy.model.records import KeyState
from epoxy.model.writes import ExpectedValueDoesNotMatch
from epoxy.node.keys import driver as driver_module
from epoxy.node.keys.key_queue import KeyQueue
from epoxy.node.keys.uncontended import Uncontended
from epoxy.protocol.keys import local
from tests.node.keys.virtual_wan import FIVE, VirtualWan, middle

KEY = b"name"
TWO, THREE = ("us-east-1", "eu-west-1"), ("us-east-1", "eu-west-1", "ap-northeast-1")


class Races:
    """Times as multiples of each region's floor. `lag_ms`: from when a loser's home knew until it was told."""

    def __init__(self, field: tuple[str, ...], races: int = 6) -> None:
        self.winners: list[float] = []
        self.losers: list[float] = []
        self.lag_ms: list[float] = []
        for seed in range(races):
            wan = VirtualWan(seed)
            for name in field:
                wan.write(name, KEY, mutable=False)
            wan.pass_ms(5_000)
            assert len(wan.answers) == len(field)
            assert sum(answer.ok for answer in wan.answers) == 1
            for answer in wan.answers:
                times = answer.took_ms / wan.floor(answer.region)
                (self.winners if answer.ok else self.losers).append(times)
                if not answer.ok:
                    assert isinstance(answer.outcome, ExpectedValueDoesNotMatch)
                    told_ms = answer.began_ms + answer.took_ms
                    self.lag_ms.append(told_ms - wan.by_name[answer.region].known_ms[KEY])


@pytest.mark.parametrize(("field", "winner"), [(TWO, 1.8), (THREE, 1.8), (FIVE, 3.0)], ids=["two", "three", "five"])
def test_races_for_a_fresh_name(field: tuple[str, ...], winner: float) -> None:
    races = Races(field)
    assert middle(races.winners) <= winner
    assert max(races.winners + races.losers) <= 5
    assert max(races.lag_ms) <= 4, "two syncs of a disk"


@pytest.mark.pure("plants faults in the rules")
def test_without_turns_five_rivals_duel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "is_rivals", lambda _ballot, _me: False)
    races = Races(FIVE)
    assert max(races.winners + races.losers) > 5


@pytest.mark.pure("plants faults in the rules")
def test_without_the_news_from_home_a_loser_is_told_late(monkeypatch: pytest.MonkeyPatch) -> None:
    def learns_nothing(_round: Uncontended, _after: KeyState) -> None:
        """The round goes on until a reply ends it."""

    monkeypatch.setattr(Uncontended, "learned", learns_nothing)
    assert max(Races(TWO).lag_ms) > 20


@pytest.mark.pure("plants faults in the rules")
def test_without_the_requests_of_rivals_five_of_them_take_half_a_round_trip_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def overlooks(_round: Uncontended, _accept: Accept) -> None:
        """Only its answer tells that a rival has voted for itself."""

    monkeypatch.setattr(Uncontended, "rival", overlooks)
    assert middle(Races(FIVE).winners) > 3.3


class Loops:
    """Clients in closed loops, after the first two seconds."""

    def __init__(self, field: tuple[str, ...], seconds: float = 6.0) -> None:
        self.wan = wan = VirtualWan(1)
        wan.write(field[0], KEY)
        wan.pass_ms(500)
        wan.answers.clear()
        begin_ms = wan.now_ms + 2_000
        for name in field:
            wan.loop(name, KEY, begin_ms + 1000 * seconds)
        wan.pass_ms(2_000 + 1000 * seconds + 5_000)
        assert all(answer.ok for answer in wan.answers), "none fails"
        counted = [answer for answer in wan.answers if answer.began_ms >= begin_ms]
        self.took = {name: [each.took_ms for each in counted if each.region == name] for name in field}
        self.least_share = min(len(times) for times in self.took.values()) * len(field) / len(counted)


@pytest.mark.parametrize("field", [TWO, THREE, FIVE], ids=["two", "three", "five"])
def test_closed_loops_have_half_an_even_share_at_least(field: tuple[str, ...]) -> None:
    loops = Loops(field)
    assert loops.least_share >= 0.5
    assert middle(loops.took["us-east-1"]) <= 1.15 * loops.wan.floor("us-east-1"), "the owner's own clients are in step"


@pytest.mark.pure("plants faults in the rules")
def test_out_of_step_the_owners_own_clients_wait_for_a_round_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyQueue, "_step_ms", lambda _queue: 0.0)
    loops = Loops(FIVE)
    assert middle(loops.took["us-east-1"]) > 1.8 * loops.wan.floor("us-east-1")


@pytest.mark.parametrize("distant", ["ap-northeast-1", "eu-west-1"])
def test_a_distant_writer_beside_an_owner(distant: str) -> None:
    wan, owner = VirtualWan(1), "us-east-1"
    wan.write(owner, KEY)
    wan.pass_ms(500)
    wan.answers.clear()
    until_ms = wan.now_ms + 20_000
    wan.pace(owner, KEY, 200, until_ms)
    wan.pass_ms(37)
    wan.pace(distant, KEY, 1_430, until_ms)
    wan.pass_ms(25_000)
    assert all(answer.ok for answer in wan.answers)
    took = [answer.took_ms for answer in wan.answers if answer.region == distant]
    assert middle(took) <= wan.way(distant, owner) + 20


def stopped_owner() -> list[float]:
    """The longest write in each of the other regions when the owner stands still."""
    wan = VirtualWan(1)
    wan.write("us-east-1", KEY)
    wan.pass_ms(500)
    for name in FIVE:
        wan.loop(name, KEY, wan.now_ms + 5_000)
    wan.pass_ms(3_000)
    wan.by_name["us-east-1"].stopped = True
    wan.pass_ms(20_000)
    others = [answer for answer in wan.answers if answer.region != "us-east-1"]
    assert all(answer.ok for answer in others), "none fails"
    return [max(answer.took_ms for answer in others if answer.region == name) for name in FIVE[1:]]


def test_a_stopped_owner_costs_a_hedge_and_not_an_election() -> None:
    """A hedge, the recovery of what it left, and for all but one a lost round."""
    longest = stopped_owner()
    assert min(longest) <= 800
    assert max(longest) <= 1_600


@pytest.mark.pure("plants faults in the rules")
def test_an_owner_that_is_given_its_whole_time_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "LEAST_SILENCE_MS", 1_700.0)
    assert max(stopped_owner()) > 1_800
