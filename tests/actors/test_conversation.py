"""The node's end of an envoy's connection: a welcome is a promise, which the lease of the datacenter has to cover."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from epoxy.actors import conversation
from epoxy.actors.conversation import NO_PROMISE, Conversation
from epoxy.actors.datacenter_lease import WAIT_MS
from epoxy.model.envoy_messages import PROTOCOL_VERSION, EnvoyHello, Ping, Pong, Rejected, Stopped, Welcome
from epoxy.protocol.placement.records import EnvoyId
from tests.actors.bench import Datacenter, Envoy

HELLO = EnvoyHello(namespace="prod", pool="web", envoy_key="w")


class Waiting(Datacenter):
    """Its lease is given by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.left_ms = 0.0
        self.hosting.lease_left_ms = lambda: self.left_ms
        self.waiting: list[object] = []
        self.hosting.when_leased = self.waiting.append
        self.link = Envoy()
        self.talk = Conversation(self.hosting, self.link)

    def leased(self, left_ms: float) -> None:
        self.left_ms = left_ms
        then = self.waiting.pop()
        assert callable(then)
        then(b"lease")
        self.clock.advance(1)


def test_a_hello_waits_for_the_lease_and_what_is_said_meanwhile_waits_behind_it() -> None:
    here = Waiting()
    here.talk.heard(HELLO)
    here.talk.heard(Stopped(actor_id="01" + 18 * "00", generation=3))
    here.talk.heard(Ping(sent_ms=7, rtt_ms=0))
    assert here.link.heard == []
    assert EnvoyId("prod", "w") not in here.hosting.sessions
    here.leased(30_000)
    assert {type(word) for word in here.link.heard} == {Welcome, Pong}
    assert EnvoyId("prod", "w") in here.hosting.sessions


def test_a_lease_that_ends_too_soon_for_a_promise_refuses_the_envoy_for_now() -> None:
    """It was welcome, and went on beside the next home of its actors."""
    here = Waiting()
    here.talk.heard(HELLO)
    here.leased(1.25 * here.hosting.lost_after_ms - 1)
    assert here.link.heard == [Rejected(message=NO_PROMISE, expired=True)]
    assert here.link.closed
    here.talk.heard(Ping(sent_ms=7, rtt_ms=0))
    assert len(here.link.heard) == 1


def test_the_lease_is_asked_for_and_waited_for_a_while() -> None:
    here, link = Datacenter(), Envoy()
    Conversation(here.hosting, link).heard(HELLO)
    here.clock.advance(1)
    assert any(isinstance(word, Welcome) for word in link.heard)
    cut, waits = Datacenter(label=2), Envoy()
    cut.lease.held = lambda: None  # type: ignore[method-assign]
    cut.hosting.lease_left_ms = lambda: 0.0
    Conversation(cut.hosting, waits).heard(HELLO)
    cut.clock.advance(WAIT_MS - 1)
    assert waits.heard == []
    cut.clock.advance(1)
    assert waits.heard == [Rejected(message=NO_PROMISE, expired=True)]


def test_a_connection_that_is_lost_while_its_hello_waits_is_not_connected() -> None:
    here = Waiting()
    here.talk.heard(HELLO)
    here.talk.lost()
    here.leased(30_000)
    assert (here.link.heard, here.hosting.sessions) == ([], {})


def test_not_everything_waits_behind_a_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MAX_EARLY", 2)
    here = Waiting()
    here.talk.heard(HELLO)
    for _ in range(3):
        here.talk.heard(Ping(sent_ms=7, rtt_ms=0))
    assert [word.expired for word in here.link.heard if isinstance(word, Rejected)] == [True]
    here.leased(30_000)
    assert len(here.link.heard) == 1


def test_a_promise_waits_for_the_fence_of_a_shared_store() -> None:
    """A gateway that was paused while another took over must not keep its envoys alive."""
    here = Waiting()
    here.talk.heard(HELLO)
    here.leased(30_000)
    fenced: list[Callable[[], None]] = []
    here.hosting.fence = fenced.append
    here.talk.heard(Ping(sent_ms=7, rtt_ms=0))
    assert not any(isinstance(word, Pong) for word in here.link.heard)
    fenced.pop()()
    assert here.link.heard[-1] == Pong(sent_ms=7)


@pytest.mark.parametrize(("version", "is_served"), [(1, True), (PROTOCOL_VERSION, True), (PROTOCOL_VERSION + 1, False)])
def test_a_worker_that_is_ahead_of_its_nodes_is_refused_with_both_versions(version: int, is_served: bool) -> None:
    here = Waiting()
    here.talk.heard(replace(HELLO, protocol_version=version))
    assert bool(here.waiting) is is_served
    if not is_served:
        (refused,) = here.link.heard
        assert isinstance(refused, Rejected)
        assert f"version {version} of the protocol of workers, and this node {PROTOCOL_VERSION}" in refused.message
