"""Requests and WebSockets at the node of their actor: given, given again, held, broken off; and their windows."""

from collections.abc import Callable

import pytest

from epoxy.actors.calls import START_MS, TIMEOUT_MS, Calls
from epoxy.actors.messages import CallActor, OwnerUnavailable, Responded, Unknown
from epoxy.actors.streams import ActorCall, CallVerdict, FromActor, Upward
from epoxy.model.actors import ActorEntry, ActorName, ActorState
from epoxy.model.envoy_messages import ActorRequest, Opened, Response
from epoxy.model.exchanges import WINDOW_BYTES, Credit, Head, HeldSocket, Piece, RequestHead, Reset, cost
from epoxy.protocol.placement.records import EnvoyId
from tests.protocol.placement.bench import Clock

ACTOR = bytes(16)
ALICE, BOB = EnvoyId("prod", "a"), EnvoyId("prod", "b")
POST = RequestHead(path="/upload")
SOCKET = RequestHead(method="GET", upgrade=True)


class Client:
    """A stream's end that notes what it hears."""

    def __init__(self) -> None:
        self.told: list[FromActor | CallVerdict] = []
        self.send: Upward = lambda _message: None

    def opened(self, send: Upward) -> None:
        self.send = send

    def heard(self, message: FromActor) -> None:
        self.told.append(message)

    def take(self) -> list[FromActor | CallVerdict]:
        told = self.told.copy()
        self.told.clear()
        return told


class Node:
    def __init__(self) -> None:
        self.clock = Clock()
        self.sent: list[tuple[EnvoyId, object]] = []
        self.wanted: list[bytes] = []
        self.calls = Calls(self.clock, lambda _actor: "it does not run", self._send, self.wanted.append)

    def _send(self, envoy: EnvoyId, message: object) -> bool:
        self.sent.append((envoy, message))
        return True

    def open(self, head: RequestHead, body: bytes = b"", *, fin: bool = False) -> Client:
        client = Client()
        asked = CallActor(target="00" * 16, body=body, head=head, fin=fin)
        self.calls.begin(ACTOR, asked, client.told.append, client)
        return client

    def give(self, envoy: EnvoyId = ALICE, generation: int = 1) -> list[object]:
        self.calls.give(running(generation), envoy)
        return self.take(envoy)

    def take(self, envoy: EnvoyId = ALICE) -> list[object]:
        taken = [message for whom, message in self.sent if whom == envoy]
        self.sent = [(whom, message) for whom, message in self.sent if whom != envoy]
        return taken

    def connected(self) -> tuple[Client, int]:
        """A WebSocket that its actor has accepted."""
        client = self.open(SOCKET)
        (opened,) = self.give()
        assert isinstance(opened, Opened)
        self.calls.heard(ALICE, Head(stream=opened.stream, status=101))
        assert client.take() == [Credit(stream=0, amount=WINDOW_BYTES), Head(stream=0, status=101)]
        return client, opened.stream


def running(generation: int) -> ActorEntry:
    return ActorEntry(
        id=ACTOR,
        name=ActorName("prod", "room", "x"),
        pool="web",
        state=ActorState.RUNNING,
        generation=generation,
        create_ts=0,
        envoy_key="a",
    )


def test_a_request_in_pieces_waits_for_its_actor_and_streams_both_ways() -> None:
    node = Node()
    client = node.open(POST, b"first")
    assert client.take() == [], "no credit before there is an actor"
    (opened,) = node.give()
    assert isinstance(opened, Opened)
    assert (opened.body, opened.fin, opened.head) == (b"first", False, POST)
    assert client.take() == [Credit(stream=0, amount=WINDOW_BYTES)]
    number = opened.stream
    client.send(Piece(stream=9, body=b"more", fin=True))
    assert node.take() == [Piece(stream=number, body=b"more", fin=True)], "with the number of this node"
    node.calls.heard(BOB, Head(stream=number, status=500))
    node.calls.heard(ALICE, Credit(stream=number, amount=cost(b"more")))
    node.calls.heard(ALICE, Head(stream=number, status=201))
    node.calls.heard(ALICE, Piece(stream=number, body=b"x"))
    client.send(Credit(stream=0, amount=65))
    assert node.take() == [Credit(stream=number, amount=65)]
    node.calls.heard(ALICE, Piece(stream=number, fin=True))
    node.calls.heard(ALICE, Piece(stream=number, body=b"after the end"))
    assert client.take() == [
        Credit(stream=0, amount=68),
        Head(stream=0, status=201),
        Piece(stream=0, body=b"x"),
        Piece(stream=0, fin=True),
    ]
    assert len(node.calls) == 0


def test_a_whole_request_is_one_message_and_its_answer_may_be_a_stream() -> None:
    node = Node()
    client = node.open(POST, b"all", fin=True)
    (asked,) = node.give()
    assert isinstance(asked, ActorRequest)
    assert (asked.body, asked.head) == (b"all", POST)
    node.calls.heard(ALICE, Head(stream=asked.request_id))
    node.calls.lose(ALICE)
    (head, reset) = client.take()
    assert isinstance(head, Head)
    assert isinstance(reset, Reset)
    assert reset.code == 1012
    told: list[CallVerdict] = []
    node.calls.begin(ACTOR, CallActor(target="", body=b""), told.append)
    (asked,) = node.give()
    assert isinstance(asked, ActorRequest)
    for message in (Head(stream=asked.request_id, status=202), Piece(stream=asked.request_id, body=b"ab")):
        node.calls.heard(ALICE, message)
    node.calls.heard(ALICE, Piece(stream=asked.request_id, body=b"c", fin=True))
    assert told == [Responded(body=b"abc", status=202)], "collected, for one who wants it whole"
    assert node.take() == [Credit(stream=asked.request_id, amount=cost(b"ab"))]


def test_an_answer_that_is_too_long_to_be_collected_is_reset() -> None:
    node = Node()
    told: list[CallVerdict] = []
    node.calls.begin(ACTOR, CallActor(target="", body=b""), told.append)
    (asked,) = node.give()
    assert isinstance(asked, ActorRequest)
    node.calls.heard(ALICE, Head(stream=asked.request_id))
    node.calls.heard(ALICE, Piece(stream=asked.request_id, body=bytes((1 << 20) + 1)))
    (verdict,) = told
    assert isinstance(verdict, Responded)
    assert verdict.error
    assert [type(message) for message in node.take()] == [Reset]
    assert len(node.calls) == 0


def exceed_the_window(node: Node) -> list[FromActor | CallVerdict]:
    client = node.open(POST)
    node.give()
    client.take()
    client.send(Piece(stream=0, body=bytes(WINDOW_BYTES)))
    client.send(Piece(stream=0, body=b"one more"))
    return client.take()


def test_a_client_that_sends_more_than_its_window_is_cut_off() -> None:
    node = Node()
    assert exceed_the_window(node) == [Unknown(reason="more was sent than the window allows")]
    assert [type(message) for message in node.take()] == [Piece, Reset]


def test_planted_a_window_that_is_not_respected_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ActorCall, "take", lambda _self, _piece: True)
    assert exceed_the_window(Node()) == [], "the check above would fail"


def test_credit_is_never_more_than_a_window() -> None:
    node = Node()
    client, number = node.connected()
    node.calls.heard(ALICE, Credit(stream=number, amount=1 << 60))
    client.send(Piece(stream=0, body=bytes(WINDOW_BYTES)))
    client.send(Piece(stream=0, body=b"one more"))
    assert isinstance(client.take()[-1], Reset)


def test_what_the_code_never_saw_is_given_again_with_all_that_was_sent() -> None:
    node = Node()
    client = node.open(POST, b"1")
    (opened,) = node.give()
    assert isinstance(opened, Opened)
    client.send(Piece(stream=0, body=b"2", fin=True))
    node.take()
    client.take()
    node.calls.heard(ALICE, Reset(stream=opened.stream, reason="stopping", refused=True))
    assert node.wanted == [ACTOR]
    assert node.give() == [], "not to the one that gave it back"
    assert node.calls.waits(ACTOR)
    again, piece = node.give(BOB, 2)
    assert isinstance(again, Opened)
    assert (again.body, piece) == (b"1", Piece(stream=opened.stream, body=b"2", fin=True))
    assert client.take() == [], "and no second window"
    node.calls.heard(BOB, Response(request_id=opened.stream, body=b"ok"))
    assert client.take() == [Responded(body=b"ok")]


def test_a_refusal_after_a_sign_of_life_does_not_count() -> None:
    node = Node()
    client = node.open(POST)
    (opened,) = node.give()
    assert isinstance(opened, Opened)
    node.calls.heard(ALICE, Credit(stream=opened.stream, amount=1))
    node.calls.heard(ALICE, Reset(stream=opened.stream, reason="not me", refused=True))
    assert client.take()[-1] == Unknown(reason="not me")


def refused_and_never_run(node: Node) -> list[FromActor | CallVerdict]:
    client = node.open(POST, b"", fin=True)
    (asked,) = node.give()
    assert isinstance(asked, ActorRequest)
    node.calls.heard(ALICE, Response(request_id=asked.request_id, body=b"stopping", refused=True))
    node.clock.advance(START_MS)
    return client.take()


def test_what_no_actor_takes_in_time_was_definitely_not_done() -> None:
    unseen = OwnerUnavailable(reason="stopping; it did not see the request", final=True)
    assert refused_and_never_run(Node()) == [unseen]


def test_what_an_actor_has_no_room_for_is_refused_at_once() -> None:
    """The client waited for 15 s for the next actor to take it."""
    node = Node()
    whole, piecewise = node.open(POST, b"", fin=True), node.open(POST)
    asked, opened = node.give()
    assert isinstance(asked, ActorRequest)
    assert isinstance(opened, Opened)
    node.calls.heard(ALICE, Response(request_id=asked.request_id, body=b"full", refused=True, busy=True))
    node.calls.heard(ALICE, Reset(stream=opened.stream, reason="full", refused=True, busy=True))
    for client in (whole, piecewise):
        assert client.take()[-1] == OwnerUnavailable(reason="full; it did not see the request")
    assert len(node.calls) == 0


def test_planted_a_refusal_that_counts_as_unknown_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: Calls, call: ActorCall, refusal: Response | Reset) -> None:
        del refusal
        self._break_off(call, "stopping")

    monkeypatch.setattr(Calls, "_given_back", forget)
    (verdict,) = refused_and_never_run(Node())
    assert isinstance(verdict, Unknown), "the check above would fail"


def test_a_body_on_its_way_keeps_its_request_alive() -> None:
    node = Node()
    client = node.open(POST)
    (opened,) = node.give()
    assert isinstance(opened, Opened)
    for _ in range(5):
        client.send(Piece(stream=0, body=b"slow"))
        node.clock.advance(START_MS - 1)
    node.clock.advance(2 * TIMEOUT_MS)
    assert client.take()[-1] == Unknown(reason="no answer in time")
    assert isinstance(node.take()[-1], Reset), "the actor is told"


def test_a_socket_is_held_across_a_sleep_with_what_was_not_seen() -> None:
    node = Node()
    client, number = node.connected()
    for text in (b"seen", b"crossed"):
        client.send(Piece(stream=0, body=text, text=True))
    node.take()
    node.calls.heard(ALICE, Credit(stream=number, amount=cost(b"seen")))
    held = HeldSocket(stream=number, head=SOCKET, attachment=b"me")
    node.calls.stopped(ALICE, ACTOR, 1, (held,))
    assert node.calls.held(ACTOR) == (held,)
    assert node.calls.waits(ACTOR), "a message crossed the sleep"
    node.calls.lose(ALICE)
    client.send(Piece(stream=0, body=b"later", text=True))
    assert node.wanted == [ACTOR]
    assert [word.body for word in node.give(BOB, 2) if isinstance(word, Piece)] == [b"crossed", b"later"]
    node.calls.heard(BOB, Piece(stream=number, body=b"hello", text=True))
    assert client.take()[-1] == Piece(stream=0, body=b"hello", text=True)
    assert not node.calls.waits(ACTOR)


def test_a_held_socket_that_its_client_closes_wakes_the_actor_to_tell_it() -> None:
    node = Node()
    client, number = node.connected()
    node.calls.stopped(ALICE, ACTOR, 1, (HeldSocket(stream=number, head=SOCKET),))
    assert not node.calls.waits(ACTOR)
    client.send(Reset(stream=0, reason="bye", code=1000))
    assert node.wanted == [ACTOR]
    assert node.give(BOB, 2) == [Reset(stream=number, reason="bye", code=1000)]
    assert (len(node.calls), node.calls.sockets, node.calls.held(ACTOR)) == (0, 0, ())


def ends() -> list[Callable[[Calls], None]]:
    return [
        lambda calls: calls.stopped(ALICE, ACTOR, 1),
        lambda calls: calls.lose(ALICE),
        lambda calls: calls.refuse(ACTOR, "destroyed"),
        lambda calls: calls.abandon("the lease is lost"),
        lambda calls: calls.close("stopping"),
    ]


@pytest.mark.parametrize("end", ends())
def test_a_socket_whose_actor_is_gone_is_closed_to_be_opened_again(end: Callable[[Calls], None]) -> None:
    node = Node()
    client, _ = node.connected()
    end(node.calls)
    (reset,) = client.take()
    assert isinstance(reset, Reset)
    assert (reset.code, node.calls.sockets, len(node.calls)) == (1012, 0, 0)


def test_sockets_that_are_not_accepted_yet_are_given_to_the_next_generation() -> None:
    node = Node()
    client = node.open(SOCKET)
    (opened,) = node.give()
    assert isinstance(opened, Opened)
    node.calls.stopped(ALICE, ACTOR, 1)
    node.calls.heard(ALICE, Reset(stream=opened.stream, refused=True))
    (again,) = node.give(ALICE, 2)
    assert isinstance(again, Opened)
    node.calls.heard(ALICE, Head(stream=opened.stream, status=403, body=b"no", fin=True))
    assert client.take()[-1] == Head(stream=0, status=403, body=b"no", fin=True)
    assert node.calls.sockets == 0


def test_a_client_that_leaves_ends_its_stream_and_no_plain_request() -> None:
    node = Node()
    waiting = node.open(POST)
    waiting.send(Reset(stream=0))
    assert (node.give(), len(node.calls)) == ([], 0)
    plain = node.open(POST, fin=True)
    node.give()
    plain.send(Reset(stream=0))
    assert node.take() == [], "it runs to its end, unheard"
    streamed = node.open(POST)
    node.give()
    streamed.send(Reset(stream=0, reason="gone"))
    assert [type(message) for message in node.take()] == [Reset]


def test_an_actor_does_not_wait_for_itself() -> None:
    node = Node()
    (verdict,) = node.open(RequestHead(chain=("11" * 16, ACTOR.hex())), fin=True).told
    assert isinstance(verdict, OwnerUnavailable)
    assert verdict.cycle
    (verdict,) = node.open(RequestHead(chain=tuple(f"{n:032x}" for n in range(1, 18))), fin=True).told
    assert isinstance(verdict, OwnerUnavailable)
    assert verdict.cycle


def test_what_is_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.actors.calls.MAX_WAITING", 1)
    monkeypatch.setattr("epoxy.actors.calls.MAX_SOCKETS", 1)
    node = Node()
    assert node.open(POST).told == []
    assert node.open(SOCKET).told == [], "counted apart"
    assert isinstance(node.open(POST).told[0], OwnerUnavailable)
    assert isinstance(node.open(SOCKET).told[0], OwnerUnavailable)


def test_a_worker_that_speaks_out_of_turn_is_cut_off() -> None:
    node = Node()
    client, number = node.connected()
    node.calls.heard(ALICE, Head(stream=number, status=101))
    assert isinstance(client.take()[0], Reset)
    assert isinstance(node.take()[0], Reset)
    other = node.open(POST)
    (opened,) = node.give()
    assert isinstance(opened, Opened)
    node.calls.heard(ALICE, Piece(stream=opened.stream, body=b"no head yet"))
    assert isinstance(other.take()[-1], Unknown)
