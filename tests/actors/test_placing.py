"""Who waits for whom when actors are given to envoys."""

import pytest

from epoxy.actors import directory, listing
from epoxy.actors.messages import Ensure, Found
from epoxy.actors.placing import SHARE, Placing
from epoxy.model.actors import ActorEntry, ActorName, ActorState
from epoxy.model.envoy_messages import EnvoyHello, Start, Stop
from epoxy.protocol.placement.config import PlacementConfig, Upgrade
from epoxy.protocol.placement.records import EnvoyId
from tests.actors.bench import Datacenter, Envoy

ENVOY = EnvoyId("prod", "a")


def made(here: Datacenter, pool: str, key: str, namespace: str = "prod") -> ActorEntry:
    verdict = here.ask(Ensure(name=ActorName(namespace, "room", key), pool=pool))
    assert isinstance(verdict, Found)
    return verdict.actor


def order_of_start(here: Datacenter) -> list[str]:
    """Two hundred wait in the pool that comes first, one in another; then both get an envoy at the same moment."""
    for number in range(200):
        made(here, "crowd", str(number))
    made(here, "lonely", "one")
    heard: list[str] = []

    class Listening(Envoy):
        def send(self, message: object) -> None:
            if isinstance(message, Start):
                heard.append(message.key)

    for pool in ("crowd", "lonely"):
        here.hosting.connect(EnvoyHello(namespace="prod", pool=pool, envoy_key=pool), Listening())
    here.clock.advance(5_000)
    return heard


def test_a_crowd_in_one_pool_does_not_hold_up_another() -> None:
    heard = order_of_start(Datacenter())
    assert len(heard) == 201
    assert heard.index("one") <= SHARE


def test_without_turns_the_crowd_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: each pool is placed to its end before the next."""
    right = Placing._place_some

    def all_of_it(self: Placing, pool: bytes, begin: bytes) -> None:
        more: bytes | None = begin
        while more is not None:
            more = right(self, pool, more)

    monkeypatch.setattr(Placing, "_place_some", all_of_it)
    assert order_of_start(Datacenter()).index("one") == 200


def test_a_pool_without_room_is_looked_at_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Datacenter()
    for number in range(50):
        made(here, "nowhere", str(number))
    tried: list[bytes] = []
    right = Placing._place_one

    def counted(self: Placing, actor_id: bytes, now_ms: int) -> bool:
        tried.append(actor_id)
        return right(self, actor_id, now_ms)

    monkeypatch.setattr(Placing, "_place_one", counted)
    here.clock.advance(1_001)
    assert 1 <= len(tried) <= 2


def test_many_pools_take_several_turns_and_all_are_looked_at() -> None:
    here = Datacenter()
    actors = [made(here, "web", "x", namespace=f"n{number:03}") for number in range(30)]
    assert len(listing.pending_pools(here.store.newest(), directory.PENDING, 100)) == 30
    for number in range(30):
        hello = EnvoyHello(namespace=f"n{number:03}", pool="web", envoy_key="a")
        here.hosting.connect(hello, Envoy())
    here.clock.advance(1)
    assert {here.look(actor).state for actor in actors} == {ActorState.STARTING}


def test_one_that_waits_after_a_failure_does_not_end_the_turn_of_its_pool() -> None:
    here = Datacenter()
    first, second = made(here, "web", "1"), made(here, "web", "2")
    session = here.connect("a")
    for actor in (first, second):
        here.hosting.running(ENVOY, actor.id, 1)
    here.hosting.stopped(ENVOY, first.id, 1, failed=True)
    here.hosting.stopped(ENVOY, second.id, 1, failed=True, cancelled=True)
    here.clock.advance(1)
    assert here.look(first).state is ActorState.PENDING
    assert here.look(second).state is ActorState.STARTING
    assert session.heard


def upgraded(upgrade: Upgrade, slots: int = 0) -> int:
    """How many of 20 actors are told to stop when an envoy of a higher version connects."""
    here = Datacenter(config=PlacementConfig(upgrade=upgrade))
    old = here.connect("a")
    for number in range(20):
        actor = made(here, "web", str(number))
        here.hosting.running(EnvoyId("prod", "a"), actor.id, actor.generation)
    hello = EnvoyHello(namespace="prod", pool="web", envoy_key="b", version=2, slots=slots)
    here.hosting.connect(hello, Envoy())
    here.clock.advance(1)
    old.take()
    here.beat("a", "b", ms=2_000)
    return len([word for word in old.take() if isinstance(word, Stop)])


def test_actors_move_to_a_higher_version_by_themselves_if_that_is_configured() -> None:
    assert upgraded(Upgrade.DRAIN) == 0
    assert upgraded(Upgrade.MOVE) == 20


def test_no_more_move_than_the_higher_version_has_room_for() -> None:
    assert upgraded(Upgrade.MOVE, slots=5) == 5


def test_planted_an_upgrade_that_does_not_look_at_room_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.protocol.placement.balance.limited", lambda found, _limit: found)
    with pytest.raises(AssertionError):
        test_no_more_move_than_the_higher_version_has_room_for()
