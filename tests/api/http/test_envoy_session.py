"""The connection of an envoy, and the grant it came with: which pools it may serve, and whose key is whose."""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from epoxy.api.http.envoy_session import ENDED, EnvoySession, held_by
from epoxy.codec import envoy_frames
from epoxy.model.access import AccessRole, Grant
from epoxy.model.envoy_messages import EnvoyHello, FromEnvoy, Ping, Pong, Welcome
from epoxy.protocol.access.principal import OPEN, Principal
from tests.actors.bench import Datacenter


def principal(name: str = "farm", *pools: str, roles: tuple[AccessRole, ...] = (AccessRole.WORKER,)) -> Principal:
    return Principal(Grant(name=name, roles=roles, pools=pools))


class Socket:
    """One worker's WebSocket."""

    def __init__(self, there: Datacenter, worker: Principal) -> None:
        self.sent: list[dict[str, Any]] = []
        self.frames: list[bytes] = []
        self.paused = False
        self.closed: list[str] = []
        self.now: Principal | None = worker
        self.session = EnvoySession(
            self,  # type: ignore[arg-type]
            there.hosting,
            lambda _session: None,
            worker,
            lambda: self.now,
            there.asks,
        )

    def send(self, message: bytes, *, text: bool = True) -> None:
        if text:
            self.sent.append(msgspec.json.decode(message))
        else:
            self.frames.append(message)

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def close(self, reason: str = "") -> None:
        if not self.closed:
            self.session.lost()
        self.closed.append(reason)

    def hello(self, *, pool: str = "web", key: str = "w", incarnation: str = "host/1/x") -> "Socket":
        said = EnvoyHello(namespace="prod", pool=pool, envoy_key=key, incarnation=incarnation)
        self.session.heard(msgspec.json.encode(said), text=True)
        return self

    def batch(self, *said: FromEnvoy) -> None:
        self.session.heard(envoy_frames.batch(said), text=False)

    @property
    def welcome(self) -> bool:
        return any(each["type"] == "welcome" for each in self.sent)


SOON: list[Callable[[], None]] = []


def turn() -> None:
    """One of the event loop."""
    ready = SOON[:]
    SOON.clear()
    for each in ready:
        each()


@pytest.fixture(autouse=True)
def no_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    SOON.clear()

    class Loop:
        def call_soon(self, then: Callable[[], None]) -> None:
            SOON.append(then)

        def call_later(self, *_args: object) -> Any:
            return self

        def cancel(self) -> None:
            pass

    monkeypatch.setattr("asyncio.get_running_loop", Loop)


def test_a_worker_serves_the_pools_of_its_grant() -> None:
    there = Datacenter()
    for number, (worker, pool, welcome) in enumerate(
        [
            (principal("all"), "web", True),
            (principal("one", "web"), "web", True),
            (principal("one", "prod/web"), "web", True),
            (principal("one", "other/web"), "web", False),
            (principal("one", "db"), "web", False),
            (principal("one", "prod/web"), "prod/web", False),
            (principal("reader", roles=(AccessRole.READER,)), "web", False),
            (OPEN, "web", True),
        ]
    ):
        socket = Socket(there, worker).hello(pool=pool, key=f"w{number}")
        assert (socket.welcome, bool(socket.closed)) == (welcome, not welcome), (worker.name, pool)
    assert "is not for pool 'web' of namespace 'prod'" in Socket(there, principal("one", "db")).hello().closed[0]


def test_a_second_worker_does_not_take_the_key_of_one_that_is_alive() -> None:
    there = Datacenter()
    first = Socket(there, principal("farm")).hello()
    second = Socket(there, principal("farm")).hello(incarnation="host/2/y")
    assert (first.closed, second.welcome) == ([], False)
    assert "is in use by host/1/x of farm" in second.closed[0]


def test_a_stranger_that_says_the_same_incarnation_does_not_take_the_key_either() -> None:
    there = Datacenter()
    first = Socket(there, principal("farm")).hello()
    stranger = Socket(there, principal("other")).hello()
    assert (first.closed, stranger.welcome) == ([], False)
    first.session.lost()
    assert not Socket(there, principal("other")).hello().welcome, "its connection broke, and its lease goes on"
    assert not Socket(there, principal("other")).hello(incarnation="").welcome
    again = Socket(there, principal("farm")).hello()
    assert again.welcome, "the same process comes back"


def test_planted_without_the_grant_in_the_incarnation_the_stranger_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.api.http.envoy_session.held_by", lambda _principal, hello: hello)
    with pytest.raises(AssertionError):
        test_a_stranger_that_says_the_same_incarnation_does_not_take_the_key_either()


def test_no_two_pairs_of_process_and_grant_have_the_same_text() -> None:
    hello = EnvoyHello(namespace="prod", pool="web", envoy_key="w", incarnation="i of a")
    other = EnvoyHello(namespace="prod", pool="web", envoy_key="w", incarnation="i")
    assert held_by(principal("b"), hello).incarnation != held_by(principal("a"), other).incarnation
    assert held_by(OPEN, hello) is hello


def test_a_connection_ends_with_its_grant() -> None:
    there = Datacenter()
    silent, working = Socket(there, principal()), Socket(there, principal()).hello()
    for socket in (silent, working):
        socket.session.look_again()
        assert socket.closed == []
        socket.now = None
        socket.session.look_again()
        assert socket.closed == [ENDED]
    narrowed = Socket(there, principal()).hello(key="n")
    narrowed.now = principal("farm", "db")
    narrowed.session.look_again()
    assert "is not for pool 'web'" in narrowed.closed[0]
    demoted = Socket(there, principal()).hello(key="d")
    demoted.now = principal("farm", roles=(AccessRole.READER,))
    demoted.session.look_again()
    assert demoted.closed == [ENDED]


def test_a_connection_that_was_refused_is_heard_no_more() -> None:
    """A WebSocket is closed by both ends: the worker may send until it has closed its own."""
    there = Datacenter()
    refused = Socket(there, principal("farm", "db")).hello(pool="web")
    assert not refused.hello(pool="web").hello(pool="db").welcome
    ended = Socket(there, principal())
    ended.now = None
    ended.session.look_again()
    assert not ended.hello().welcome
    assert there.hosting.sessions == {}


def test_hello_is_checked_against_the_grant_that_is_in_force_by_then() -> None:
    there = Datacenter()
    late = Socket(there, principal())
    late.now = principal("farm", "db")
    late.session.look_again()
    assert late.closed == []
    assert not late.hello(pool="web").welcome


HELLO = EnvoyHello(namespace="prod", pool="web", envoy_key="w", incarnation="host/1/x")


def test_a_node_answers_in_the_form_of_the_hello() -> None:
    there = Datacenter()
    spoken = Socket(there, principal()).hello()
    spoken.batch(Ping(sent_ms=7))
    assert ([each["type"] for each in spoken.sent], spoken.frames) == (["welcome", "pong"], [])
    packed = Socket(there, principal())
    packed.batch(replace(HELLO, envoy_key="p"))
    packed.session.heard(msgspec.json.encode(Ping(sent_ms=7)), text=True)
    turn()
    (frame,) = packed.frames
    welcome, pong = envoy_frames.to_envoy.read(frame, text=False)
    assert (type(welcome), pong, packed.sent) == (Welcome, Pong(sent_ms=7), [])


def test_what_a_turn_produced_is_one_frame_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.api.http.envoy_session.TURN_S", math.inf)
    socket = Socket(Datacenter(), principal())
    socket.batch(HELLO, *[Ping(sent_ms=number) for number in range(20)])
    assert socket.frames == []
    turn()
    assert [len(envoy_frames.to_envoy.read(frame, text=False)) for frame in socket.frames] == [21]
    socket.frames.clear()
    one = len(envoy_frames.pack(Pong(sent_ms=1)))
    monkeypatch.setattr("epoxy.api.http.envoy_session.FRAME_BYTES", 3 * one)
    socket.batch(*[Ping(sent_ms=1)] * 7)
    turn()
    assert [len(envoy_frames.to_envoy.read(frame, text=False)) for frame in socket.frames] == [3, 3, 1]


def test_a_refusal_is_sent_before_the_connection_is_closed() -> None:
    socket = Socket(Datacenter(), principal())
    socket.batch(Ping(sent_ms=1))
    (frame,) = socket.frames
    (told,) = envoy_frames.to_envoy.read(frame, text=False)
    assert "the first message is hello" in str(told)
    assert socket.closed == ["the first message is hello"]


def test_a_long_batch_gives_others_their_turn_and_is_read_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.api.http.envoy_session.TURN_S", -1.0)
    socket = Socket(Datacenter(), principal())
    socket.batch(HELLO, *[Ping(sent_ms=number) for number in range(3)])
    assert socket.paused
    socket.batch(Ping(sent_ms=3))
    turns = 0
    while socket.paused:
        turn()
        turns += 1
    turn()
    assert turns == 4
    told = [each for frame in socket.frames for each in envoy_frames.to_envoy.read(frame, text=False)]
    assert told[1:] == [Pong(sent_ms=number) for number in range(4)]


def test_a_batch_that_is_none_is_refused() -> None:
    socket = Socket(Datacenter(), principal())
    socket.batch(HELLO)
    socket.session.heard(b"\xc1", text=False)
    assert len(socket.closed) == 1
