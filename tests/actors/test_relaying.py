"""Questions and streams between two datacenters on one connection, and what becomes of them when it breaks."""

import pytest

from epoxy.actors import relaying
from epoxy.actors.messages import CallActor, GetActor, Missing, OwnerUnavailable, Question, Unknown, Verdict
from epoxy.actors.relaying import AnsweringEnd, AskingEnd, Beat, RelayedVerdict, RelayMessage
from epoxy.actors.streams import FromClient, StreamEnd
from epoxy.model.exchanges import Credit, Head, Piece, RequestHead, Reset
from tests.actors.test_calls import Client
from tests.protocol.placement.bench import Clock

LOOK = GetActor(target="00" * 16)
UPLOAD = CallActor(target="00" * 16, body=b"first", head=RequestHead(), fin=False)
SOCKET = CallActor(target="00" * 16, body=b"", head=RequestHead(upgrade=True), fin=False)


class Owner:
    """The service behind the answering end."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.verdict: Verdict | None = Missing()
        self.streams: list[StreamEnd] = []
        self.up: list[FromClient] = []

    def ask(self, question, answered, *, relayed=False, stream=None) -> None:  # type: ignore[no-untyped-def]
        assert relayed
        self.questions.append(question)
        if stream is None and self.verdict is not None:
            answered(self.verdict)
        elif stream is not None:
            stream.opened(self.up.append)
            self.streams.append(stream)
            self.fail = answered


class Pair:
    """Both ends, with a wire that delivers at once."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.owner = Owner()
        self.wire: list[RelayMessage] = []
        self.here = AskingEnd(self.clock, self._there)
        self.there = AnsweringEnd(self.owner, lambda message: self.here.heard(message))
        self.told: list[Verdict | None] = []

    def _there(self, message: RelayMessage) -> None:
        self.wire.append(message)
        self.there.heard(message)

    def open(self, question: CallActor) -> tuple[Client, StreamEnd]:
        client = Client()
        self.here.ask(question, self.told.append, client)
        return client, self.owner.streams[-1]


def test_many_questions_share_a_connection() -> None:
    pair = Pair()
    for _ in range(3):
        pair.here.ask(LOOK, pair.told.append)
    assert (pair.told, pair.owner.questions, len(pair.here)) == ([Missing()] * 3, [LOOK] * 3, 0)


def test_a_stream_is_passed_on_as_it_is() -> None:
    pair = Pair()
    client, actor = pair.open(UPLOAD)
    other, other_actor = pair.open(UPLOAD)
    actor.heard(Credit(stream=0, amount=5))
    client.send(Piece(stream=0, body=b"more", fin=True))
    assert [type(message) for message in pair.owner.up] == [Piece]
    for message in (Head(stream=0, status=201), Piece(stream=0, body=b"a"), Piece(stream=0, fin=True)):
        actor.heard(message)
    assert client.take() == [
        Credit(stream=0, amount=5),
        Head(stream=0, status=201),
        Piece(stream=0, body=b"a"),
        Piece(stream=0, fin=True),
    ]
    assert (other.take(), pair.told, len(pair.here)) == ([], [], 1)
    pair.owner.fail(Unknown(reason="lost"))
    other_actor.heard(Piece(stream=0, body=b"late"))
    assert (other.take(), pair.told) == ([], [Unknown(reason="lost")]), "a verdict, and nothing after it"


def test_a_client_that_leaves_is_told_there() -> None:
    pair = Pair()
    client, _ = pair.open(SOCKET)
    client.send(Reset(stream=0, code=1000))
    assert [type(message) for message in pair.owner.up] == [Reset]
    assert len(pair.here) == 0


def test_a_broken_connection_ends_everything_as_what_it_is() -> None:
    pair = Pair()
    pair.owner.verdict = None
    pair.here.ask(LOOK, pair.told.append)
    begun, actor = pair.open(SOCKET)
    actor.heard(Head(stream=0, status=101))
    waiting, _ = pair.open(UPLOAD)
    pair.here.lost()
    reset = begun.take()[-1]
    assert isinstance(reset, Reset)
    assert (reset.code, pair.told, waiting.take(), len(pair.here)) == (1012, [None, None], [], 0)
    pair.there.lost()
    assert [type(message) for message in pair.owner.up] == [Reset, Reset], "the actors hear of both"


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaying, "MAX_ASKING", 1)
    pair = Pair()
    pair.owner.verdict = None
    for _ in range(2):
        pair.here.ask(LOOK, pair.told.append)
    assert isinstance(pair.told[0], OwnerUnavailable)
    pair.clock.advance(relaying.TIMEOUT_MS)
    assert pair.told[1:] == [None], "no answer in time"
    monkeypatch.setattr(relaying, "MAX_STREAMS", 1)
    pair.open(SOCKET)
    pair.here.ask(SOCKET, pair.told.append, Client())
    assert isinstance(pair.told[2], OwnerUnavailable)


def test_a_beat_is_answered() -> None:
    told: list[RelayMessage] = []
    AnsweringEnd(Owner(), told.append).heard(Beat())
    assert told == [Beat()]


def test_of_what_is_withdrawn_nothing_is_heard() -> None:
    pair = Pair()
    pair.owner.verdict = None
    assert not pair.here.ask(LOOK, pair.told.append)(), "it was sent"
    client = Client()
    withdraw = pair.here.ask(UPLOAD, pair.told.append, client)
    assert not withdraw()
    assert isinstance(pair.owner.up[-1], Reset)
    pair.here.heard(RelayedVerdict(number=1, verdict=Missing()))
    pair.owner.streams[-1].heard(Head(stream=0, fin=True))
    assert not withdraw(), "again"
    assert (pair.told, client.take(), len(pair.here)) == ([], [], 0)
