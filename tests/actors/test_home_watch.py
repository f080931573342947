"""A home that is silent past its lease holds up no question."""

import pytest

from epoxy.actors.home_watch import GONE, LOOK_MS, WaitingQuestion
from epoxy.actors.messages import (
    AdoptActor,
    CallActor,
    Destroy,
    Ensure,
    Found,
    GetActor,
    Missing,
    MoveActor,
    Question,
    Responded,
    Unknown,
    Verdict,
)
from epoxy.actors.service import may_be_repeated
from epoxy.actors.streams import CLOSE_MOVED
from epoxy.codec.home_records import encode
from epoxy.model.envoy_messages import Start
from epoxy.model.exchanges import Credit, Head, Piece, RequestHead, Reset
from epoxy.model.homes import DatacenterLease, datacenter_key
from tests.actors.bench import HERE, NAME, THERE, Datacenter, reserve_there
from tests.actors.test_calls import Client

KEYED = CallActor(target=NAME, body=b"", head=RequestHead(idempotency_key="k"))
PLAIN = CallActor(target=NAME, body=b"", head=RequestHead())
SOCKET = CallActor(target=NAME, body=b"", head=RequestHead(upgrade=True), fin=False)
UPLOAD = CallActor(target=NAME, body=b"", head=RequestHead(idempotency_key="k"), fin=False)

REPEATED: tuple[Question, ...] = (GetActor(target=NAME), Ensure(name=NAME, pool="web"))
ONCE: tuple[Question, ...] = (
    PLAIN,
    UPLOAD,
    SOCKET,
    CallActor(target=NAME, body=b""),
    Ensure(name=NAME, pool="web", exclusive=True),
    Destroy(target=NAME),
    MoveActor(target=NAME, to=3),
)


class Asking(Datacenter):
    """Workers are here, and the home of the name is elsewhere and silent."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = self.connect("w")
        reserve_there(self.keys)
        self.relay.silent = True
        self.told: list[Verdict] = []

    def begin(self, question: Question, client: Client | None = None) -> None:
        self.actors.ask(question, self.told.append, stream=client)

    def end_there(self) -> None:
        """Its lease."""
        self.keys.end(datacenter_key(THERE))

    def look(self) -> list[Verdict]:  # type: ignore[override]
        self.clock.advance(2 * LOOK_MS)
        told = self.told.copy()
        self.told.clear()
        return told


@pytest.mark.parametrize("question", REPEATED)
def test_a_question_outlives_its_home(question: Question) -> None:
    here = Asking()
    here.begin(question)
    assert here.look() == [], "as long as the lease lasts"
    here.end_there()
    (found,) = here.look()
    assert isinstance(found, Found)
    assert (found.label, here.changes.taken_over, here.relay.withdrawn) == (HERE, 1, 1)


def test_a_request_with_a_key_is_given_to_the_actor_where_it_goes_on() -> None:
    here = Asking()
    here.begin(KEYED)
    here.end_there()
    assert here.look() == []
    assert [type(word) for word in here.worker.take()] == [Start]
    assert len(here.hosting.calls) == 1


@pytest.mark.parametrize("question", ONCE)
def test_what_may_not_be_done_twice_has_an_unknown_outcome_at_once(question: Question) -> None:
    here = Asking()
    here.begin(question)
    here.end_there()
    (verdict,) = here.look()
    assert isinstance(verdict, Unknown)
    assert (here.changes.taken_over, len(here.relay.asked)) == (0, 1)


def test_what_was_never_sent_is_asked_of_the_next_home() -> None:
    here = Asking()
    here.relay.sent = False
    here.begin(PLAIN)
    here.end_there()
    assert here.look() == []
    assert (here.changes.taken_over, len(here.hosting.calls)) == (1, 1)


def test_a_home_that_is_back_under_another_lease_is_asked_again() -> None:
    here = Asking()
    here.begin(GetActor(target=NAME))
    back = DatacenterLease(incarnation=bytes(16), pools=(("prod", "web"),))
    here.keys.values[datacenter_key(THERE)] = encode(back)
    assert here.look() == []
    assert [label for label, _ in here.relay.asked] == [THERE, THERE]
    assert here.changes.taken_over == 0


def test_a_hint_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Asking()
    here.begin(PLAIN)
    with monkeypatch.context() as patch:
        patch.setattr(here.keys, "peek", lambda _key: None)
        assert here.look() == []
    here.relay.late.pop()(Responded(body=b"late"))
    assert here.look() == [Responded(body=b"late")]


def test_streams_under_way_break_off() -> None:
    here, client, ended = Asking(), Client(), Client()
    here.begin(SOCKET, client)
    here.begin(PLAIN, ended)
    for stream in here.relay.streams:
        stream.heard(Head(stream=0, status=101))
    here.relay.streams[1].heard(Piece(stream=0, fin=True))
    client.take()
    ended.take()
    here.end_there()
    assert here.look() == []
    assert client.take() == [Reset(stream=0, reason=GONE, code=CLOSE_MOVED)]
    assert (ended.take(), here.relay.withdrawn) == ([], 1)


def test_a_stream_that_has_not_begun_goes_on_elsewhere_unless_its_client_left() -> None:
    here, client, left = Asking(), Client(), Client()
    here.begin(KEYED, client)
    here.relay.streams[0].heard(Credit(stream=0, amount=1))
    here.begin(KEYED, left)
    left.send(Reset(stream=0, reason="closed"))
    here.end_there()
    assert here.look() == []
    assert (len(here.hosting.calls), here.relay.withdrawn) == (1, 1)


def test_nothing_is_looked_at_when_nothing_waits() -> None:
    here = Asking()
    here.begin(GetActor(target=NAME))
    here.relay.late.pop()(Missing())
    assert here.look() == [Missing()]
    assert (here.actors._others._waiting, here.actors._others._is_looking) == ({}, False)


def test_the_check_notices_a_home_that_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the end of a lease is not seen."""
    monkeypatch.setattr(WaitingQuestion, "is_over", lambda _self, _now: False)
    for question in REPEATED:
        with pytest.raises(ValueError, match="not enough values"):
            test_a_question_outlives_its_home(question)


def test_what_may_be_repeated() -> None:
    assert all(map(may_be_repeated, (*REPEATED, KEYED, AdoptActor(target=NAME))))
    assert not any(map(may_be_repeated, ONCE))
