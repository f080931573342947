"""One request to an actor or one WebSocket, at the node that hosts the actor: what was sent, what was seen, and the
window of its client."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from epoxy.actors.messages import CallActor, OwnerUnavailable, Responded, Unknown
from epoxy.model.actors import MAX_REQUEST_BYTES, ActorEntry
from epoxy.model.envoy_messages import ActorRequest, Opened
from epoxy.model.exchanges import WINDOW_BYTES, Credit, Head, HeldSocket, Piece, Reset, cost
from epoxy.ports import Timer
from epoxy.protocol.placement.records import EnvoyId

CLOSE_MOVED = 1012
"""Of a WebSocket whose actor ended or moved, or whose way to it broke: its client connects again."""

FromClient = Piece | Credit | Reset
FromActor = Head | Piece | Credit | Reset
Upward = Callable[[FromClient], None]
"""To the actor. The number of the stream in a message is not looked at."""

CallVerdict = Responded | OwnerUnavailable | Unknown
Heard = Callable[[CallVerdict], None]
"""Called once, unless the stream has a `Head`."""


class StreamEnd(Protocol):
    """The client's end of a stream. It sends nothing but a `Reset` before it has credit."""

    def opened(self, send: Upward) -> None:
        """There is a way to the actor. Called again if that changes, before anything was heard."""

    def heard(self, message: FromActor) -> None:
        """A `Head` first, and nothing after `fin` or `Reset`."""


class WholeAnswer:
    """Collects an answer that comes in pieces, for a client that wants it whole."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._head = Head(stream=0)
        self._pieces: list[bytes] = []
        self._size = 0
        self._send: Upward | None = None

    def opened(self, send: Upward) -> None:
        self._send = send

    def heard(self, message: FromActor) -> None:
        match message:
            case Head():
                self._head = message
                self._add(message.body, fin=message.fin, used=0)
            case Piece():
                self._add(message.body, fin=message.fin, used=cost(message.body))
            case Reset():
                self._heard(Unknown(reason=f"the answer broke off: {message.reason}"))
            case Credit():
                pass

    def _add(self, body: bytes, *, fin: bool, used: int) -> None:
        self._pieces.append(body)
        self._size += len(body)
        if self._size > MAX_REQUEST_BYTES:
            self._tell(Reset(stream=0, reason="the answer is too long"))
            reason = f"the actor's answer has more than {MAX_REQUEST_BYTES} bytes, which is too long for this request"
            self._heard(Responded(body=reason.encode(), error=True))
        elif fin:
            body = b"".join(self._pieces)
            self._heard(Responded(body=body, status=self._head.status, headers=self._head.headers))
        elif used:
            self._tell(Credit(stream=0, amount=used))

    def _tell(self, message: FromClient) -> None:
        if self._send is not None:
            self._send(message)


class ActorCall:
    """`unseen`: pieces of the client that the actor is not known to have seen, sent or not. `window`: what the client
    may send yet. `began`: the answer has. `held`: a WebSocket whose actor is asleep. `refused_by`: who gave it back."""

    __slots__ = (
        "_credited",
        "actor_id",
        "began",
        "body",
        "ended",
        "envoy",
        "fin",
        "generation",
        "head",
        "heard",
        "held",
        "is_known",
        "moved",
        "number",
        "refusal",
        "refused_by",
        "since_ms",
        "size",
        "stream",
        "timer",
        "unseen",
        "window",
    )

    def __init__(self, number: int, actor_id: bytes, asked: CallActor, heard: Heard, now_ms: float) -> None:
        self.number = number
        self.actor_id = actor_id
        self.head = asked.head
        self.body = asked.body
        self.size = len(asked.body)
        """Counted for it until its answer begins."""
        self.fin = asked.fin
        self.heard = heard
        self.stream: StreamEnd | None = None
        self.envoy: EnvoyId | None = None
        self.generation = 0
        self.timer: Timer | None = None
        self.since_ms = now_ms
        self.began = self.moved = self.is_known = False
        self.held: HeldSocket | None = None
        self.ended: Reset | None = None
        """By the client, while the actor was asleep."""
        self.refused_by: tuple[EnvoyId, int] | None = None
        self.refusal = ""
        self.unseen: deque[Piece] = deque()
        self.window = 0
        self._credited = 0

    @property
    def is_socket(self) -> bool:
        return self.head is not None and self.head.upgrade

    @property
    def is_whole(self) -> bool:
        """One message, and usually one answer."""
        return self.fin and not self.is_socket and not self.unseen

    def opening(self, actor: ActorEntry) -> ActorRequest | Opened:
        actor_id, generation = actor.id.hex(), actor.generation
        if self.head is not None and not self.is_whole:
            return Opened(stream=self.number, actor_id=actor_id, generation=generation, head=self.head, body=self.body)
        return ActorRequest(
            request_id=self.number, actor_id=actor_id, generation=generation, body=self.body, head=self.head
        )

    def take(self, piece: Piece) -> bool:
        """From the client, for the actor. False: it has no credit."""
        if self.window <= 0 or (self.fin and not self.is_socket):
            return False
        self.window -= cost(piece.body)
        if self.is_socket or not self.is_known:
            self.unseen.append(piece)
        self.fin = piece.fin
        return True

    def seen(self, amount: int) -> None:
        """The actor has seen so much more."""
        self.window = min(self.window + amount, WINDOW_BYTES)
        if not self.is_socket:
            return
        self._credited += amount
        while self.unseen and self._credited >= cost(self.unseen[0].body):
            self._credited -= cost(self.unseen.popleft().body)
        if not self.unseen:
            self._credited = 0

    def known(self) -> None:
        """The actor's code has it: it cannot be given to another any more."""
        self.is_known = True
        if not self.is_socket:
            self.unseen.clear()
            self.body = b""
