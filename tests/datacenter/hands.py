"""Links by hand: what is asked is kept until a test answers it."""

from collections.abc import Callable, Sequence
from typing import Any

from epoxy.codec import wire
from epoxy.datacenter.messages import ForwardedReplies, ForwardedRequests
from epoxy.datacenter.ports import Answered, Serve
from epoxy.model.frames import PeerResponse
from epoxy.model.messages import Reply, Request
from epoxy.model.shards import shard_of


class Asked:
    """One question under way."""

    def __init__(self, to: int, question: Any, answer: Answered) -> None:
        self.to = to
        self.question = question
        self.answer = answer

    @property
    def requests(self) -> tuple[Request, ...]:
        assert isinstance(self.question, ForwardedRequests)
        return wire.decode_peer_request(self.question.body).requests

    def reply(self, *replies: Reply) -> None:
        self.answer(ForwardedReplies(wire.encode_peer_response(PeerResponse(replies=replies))))


class HandLinks:
    """`ports.Messenger`."""

    def __init__(self, *sessions: int) -> None:
        self.sessions = set(sessions)
        self.asked: list[Asked] = []
        self.told: list[tuple[int, Any]] = []
        self.handlers: dict[type[Any], Serve[Any]] = {}

    def ask(self, session: int, question: Any, answered: Answered) -> None:
        self.asked.append(Asked(session, question, answered))

    def tell(self, session: int, question: Any) -> None:
        self.told.append((session, question))

    def serve(self, kind: type[Any], handler: Serve[Any]) -> None:
        self.handlers[kind] = handler

    def heard(self, question: Any, sender: int = 2) -> list[Any]:
        """Another node asks this one. Answers come into the list."""
        answers: list[Any] = []
        self.handlers[type(question)](sender, question, answers.append)
        return answers

    def take(self) -> Asked:
        return self.asked.pop(0)

    def take_all(self) -> list[Asked]:
        asked, self.asked = self.asked, []
        return asked


def keys_of(shard: int, count: int = 1) -> list[bytes]:
    """Clients' keys of this shard."""
    found: list[bytes] = []
    number = 0
    while len(found) < count:
        key = b"key/%d" % number
        number += 1
        if shard_of(key) == shard:
            found.append(key)
    return found


def collect(call: Callable[..., None], *given: Any) -> list[Any]:
    """What a call answers, now or later."""
    answers: list[Any] = []
    call(*given, answers.append)
    return answers


def the(answers: Sequence[Any]) -> Any:
    assert len(answers) == 1, "answered once"
    return answers[0]
