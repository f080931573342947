"""Links follow the configuration, and who is none of the members is heard no further than that."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.api.http.router import Api
from epoxy.api.metrics import Metrics
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, first_epoch
from epoxy.model.incarnation import Greeting, Incarnation, Sighting
from epoxy.model.members import MemberReply, MemberStatus, StatusRead
from epoxy.model.messages import ConfigOk, Failed, Read, ReadOk, Reply, Request, StaleEpoch, UpdateConfig
from epoxy.node.service import Node
from epoxy.server.peer_router import PeerRouter, not_gateway_routes
from epoxy.store.memory import MemoryStore
from epoxy.transport.limits import GATEWAY_PATHS
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.wan.emulation import Link
from tests.api.http.http_bench import FakeNode, ask
from tests.node.bench import HandClock
from tests.node.service_bench import HandLinks, settings_of
from tests.protocol.keys.harness import FixedDice

ME = 1
IDENTITY = 1
"""The first number a `FixedDice` draws."""

READ = Read(key=b"k", epoch=1)


class Followed(HandLinks):
    """Peers and questions alike."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[int, str] = {}

    def set_links(self, links: Mapping[int, str]) -> None:
        self.links = dict(links)

    def ask(self, *_: object) -> None:
        raise AssertionError("nobody is asked here")

    def stop(self) -> None:
        self.set_links({})


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, n: int = 3) -> None:
        self.clock, self.peers, self.questions = HandClock(), Followed(), Followed()
        self.scheduled: list[Callable[[], None]] = []
        loop: Any = type(
            "Loop",
            (),
            {
                "call_soon": lambda _, then: self.scheduled.append(then),
                "call_later": lambda _, delay_s, then: self.clock.call_later(1000 * delay_s, then),
            },
        )()
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
        settings = settings_of(n)
        self.link = Link(self.clock)
        self.node = Node(settings, MemoryStore(), self.peers, self.clock, FixedDice(), print, self.questions)
        handle = self.node.replica.handle_all
        self.router = PeerRouter(self.node, self.peers, self.questions, self.link, handle)  # type: ignore[arg-type]
        self.router.start()

    def adopt(self, config: ClusterConfig) -> None:
        self.node.replica.handle([UpdateConfig(config=config)], lambda _: None)
        for then in self.scheduled:
            then()
        self.scheduled.clear()

    def hear(self, *requests: Request, sender: int = 2, epoch: int = 1, store: int = 102) -> Sequence[Reply] | None:
        """None: another store than the one on record."""
        header = SignedHeader(sender, ME, epoch, 0, 0, greeting(store))
        if not self.router._has_left(header) and self.node.gate.meet(sender, header.greeting) is not None:  # type: ignore[union-attr]
            return None
        replies: list[Reply] = []
        self.router._handler_for(header)(requests, replies.extend)
        return replies

    def ask(self, sender: int, epoch: int) -> MemberReply:
        replies: list[MemberReply] = []
        self.router._answer(SignedHeader(sender, ME, epoch, 0, 0, greeting(102)), StatusRead(), replies.append)
        return replies[0]


def greeting(store: int) -> Greeting:
    return Greeting(incarnation=Incarnation(store=store, counter=1, nonce=store, base=0), position=0)


def confirm(world: World) -> None:
    """Another member has recorded this start."""
    gate = world.node.gate
    assert gate is not None
    assert gate.meet(2, greeting(102)) is None
    gate.answered(2)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def members(*ids: int, epoch: int = 2) -> ClusterConfig:
    infos = tuple(ReplicaInfo(id=i, url=f"http://{i}", identity=IDENTITY if i == ME else 100 + i) for i in ids)
    return ClusterConfig(epoch=epoch, coordinator_id=ids[0], replicas=infos)


def test_links_follow_the_members_and_those_who_leave_are_told_first(world: World) -> None:
    assert set(world.peers.links) == {2, 3}
    world.adopt(members(1, 2, 4))
    assert world.peers.links[4] == "http://4"
    assert 3 in world.peers.links, "it may not have heard"
    world.clock.advance(60_000)
    assert set(world.peers.links) == set(world.questions.links) == {2, 4}
    assert world.router.ids() == {2, 4}
    world.router.stop()
    assert world.questions.links == {}


def test_one_that_is_no_member_has_nobody_to_talk_to(world: World) -> None:
    world.adopt(members(2, 3))
    world.clock.advance(60_000)
    assert world.peers.links == {}


def test_a_store_nobody_has_met_takes_configurations_and_no_part_in_anything(world: World) -> None:
    (failed,) = world.hear(READ) or ()
    assert isinstance(failed, Failed)
    assert world.hear() == [], "a probe is answered, and the sender is on record now"
    assert world.hear(UpdateConfig(config=first_epoch((1, 2, 3)))) is not None
    assert world.hear(READ, store=7) is None, "another store than the one met first"


def test_a_member_is_served(world: World) -> None:
    world.adopt(members(1, 2, 3))
    confirm(world)
    (reply,) = world.hear(replace(READ, epoch=2), epoch=2) or ()
    assert isinstance(reply, ReadOk)
    assert isinstance(world.ask(2, epoch=2), MemberStatus)


def test_who_was_removed_is_told_so_and_not_written_down(world: World) -> None:
    world.adopt(members(1, 2))
    told = StaleEpoch(config=world.node.replica.config)
    assert world.hear(READ, READ, sender=3, store=103) == [told, told]
    assert world.hear(sender=3, store=104) == [], "whatever its store"
    assert world.ask(3, epoch=1) == told
    gate = world.node.gate
    assert gate is not None
    assert gate.greeting(3).known is None


def test_a_stranger_of_a_newer_epoch_may_be_a_member(world: World) -> None:
    world.adopt(members(1, 2))
    newer = members(1, 2, 9, epoch=5)
    (reply,) = world.hear(UpdateConfig(config=newer), sender=9, epoch=5, store=109) or ()
    assert reply == ConfigOk(epoch=5)


def test_a_store_that_is_refused_has_no_links_and_hears_no_other(world: World) -> None:
    world.adopt(members(1, 2, 3))
    confirm(world)
    gate = world.node.gate
    assert gate is not None
    gate.alarm = lambda _: world.router.refused()
    gate.told(2, Sighting(store=IDENTITY, counter=9, nonce=9, position=0))
    assert gate.refused
    for then in world.scheduled:
        then()
    assert world.peers.links == world.questions.links == {}
    assert world.hear(READ) is None
    world.adopt(members(1, 2, 3, epoch=3))
    assert world.peers.links == {}


def test_the_status_has_this_start_and_what_is_remembered_of_others(world: World) -> None:
    assert [(peer.id, peer.starts, peer.position) for peer in world.node.status().peers] == [(2, 0, 0), (3, 0, 0)]
    start = world.node.status().start
    assert start is not None
    assert (start.starts, start.state) == (1, "confirming")
    world.adopt(members(1, 2, 3))
    confirm(world)
    start = world.node.status().start
    assert start is not None
    assert start.state == "cleared"
    assert [(peer.id, peer.starts) for peer in world.node.status().peers] == [(2, 1), (3, 0)]
    assert world.node.gate is not None
    world.node.gate.refuse("told so")
    start = world.node.status().start
    assert start is not None
    assert start.state == "refused"


def test_a_node_that_is_not_the_gateway_says_so_at_all_addresses_of_peers() -> None:
    api = Api(FakeNode(), Metrics(), more=not_gateway_routes())
    methods = {each.path: each.method for each in not_gateway_routes()}
    assert methods.keys() == {path.decode() for path in GATEWAY_PATHS}
    for path, method in methods.items():
        answer = ask(api, method, path, b"" if method == "POST" else None)
        assert (answer.status, answer.json()["error"]["code"]) == (421, "not_gateway")
