"""One activation of an actor: what happens between its worker's connection and its code, from its start to its end.
Without IO.

Everything that comes for the actor waits in one mailbox, and each is a *turn* of its code. `ActorTask` runs the code:
it takes a mail (`take`), and says how the turn ended (`finish_turn`, `fail_turn`).
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from epoxy.client.hosted.calls import MAX_CALLS, Answered, CallsUnderWay
from epoxy.client.hosted.link import ActorLink, Ending, FromActor, ToActor, WorkerTimer
from epoxy.client.hosted.mailbox import Mail, Mailbox, MailKind
from epoxy.client.hosted.open_requests import OpenRequests, Pump
from epoxy.client.hosted.requests import Request
from epoxy.client.hosted.sockets import Socket, new_socket
from epoxy.client.hosted.unit_of_work import Action, UnitOfWork
from epoxy.codec.actor_documents import KeptAnswer
from epoxy.model.actors import MAX_REQUEST_BYTES, ActorName
from epoxy.model.envoy_messages import (
    ActorAsk,
    ActorRequest,
    AlarmDue,
    AskAnswer,
    Opened,
    Response,
    Saved,
    SaveRefused,
    Start,
)
from epoxy.model.errors import InvalidRequest, Unavailable
from epoxy.model.exchanges import MAX_CHAIN, Credit, Piece, RequestHead, Reset, cost

MAX_SOCKETS = 5_000
"""Of one actor. A message to all of them is a turn of some ten milliseconds."""

MAX_HELD_BYTES = 1 << 20
"""Of the sockets that a node holds for a sleeping actor: they are in one message. With more the actor stays awake."""

SOCKET_BYTES = 256
"""Of a held socket in that message, beside its headers and attachment."""

SOON_MS = 100
"""Until an actor that wants to sleep, and has something under way, is looked at again."""

ENDING_MS = 5_000
"""For the clean-up (`on_stop`) of an actor that sleeps or is destroyed; then it is interrupted."""

NOT_TEXT, TRY_AGAIN_LATER = 1007, 1013
"""Codes of close frames."""


class Activation:
    """`changed` is called when there may be something to do: mail, or the end. `refused`: the first of a row of saves
    was refused, for this reason, and is tried again. `fenced`: another generation has begun, and the code must be
    interrupted now."""

    def __init__(
        self,
        start: Start,
        link: ActorLink,
        unix_ms: Callable[[], int],
        *,
        changed: Action,
        refused: Callable[[str], None],
        fenced: Callable[[str], None],
        pump: Pump,
        takes_sockets: bool = False,
        sleep_after_ms: float | None = None,
    ) -> None:
        self.start = start
        self.ending: Ending | None = None
        """Set: no more turns after those that wait."""
        self.sockets: dict[int, Socket] = {}
        self.work = UnitOfWork(start, link, refused, fenced)
        self._link = link
        self._mailbox = Mailbox()
        self._requests = OpenRequests(start.actor_id, link, self.work, self._mailbox, unix_ms, self._arrived, pump)
        self._asks = CallsUnderWay(link)
        self._changed = changed
        self._takes_sockets = takes_sockets
        self.request: Request | None = None
        """Of the turn under way."""
        self._over = False
        self._sleep_after_ms = sleep_after_ms
        self._wants_sleep = self._wants_destruction = False
        self._active_ms = link.clock.now_ms()
        self._timer: WorkerTimer | None = None
        for held in start.sockets:
            self.sockets[held.stream] = Socket(self, held, accepted=True)
            link.open(held.stream)
        if sleep_after_ms is not None:
            self._look_later(sleep_after_ms)

    # What comes from the node

    def heard(self, message: ToActor) -> None:
        match message:
            case ActorRequest() | Opened() if self.ending is not None:
                self._link.send(refused(message, "the actor is stopping"))
            case ActorRequest():
                self._requests.asked(message)
            case Opened(head=head):
                opened = self._connect if head.upgrade else self._requests.opened
                opened(message)
            case Piece() | Credit() | Reset():
                socket = self.sockets.get(message.stream)
                if socket is None:
                    self._requests.heard(message)
                else:
                    self._heard_of_socket(socket, message)
            case Saved():
                self.work.gate.saved(message)
                self._changed()
            case SaveRefused():
                self.work.gate.refused(message)
            case AlarmDue(at_ms=at_ms):
                if at_ms == self.work.alarm_ms and not self._mailbox.has(MailKind.ALARM):
                    self._arrived(Mail(MailKind.ALARM))
            case AskAnswer():
                self._asks.heard(message)
            case _:
                assert_never(message)

    def connected(self) -> None:
        self.work.gate.send_again()

    def lost(self) -> None:
        """What was open on the connection is over: requests, sockets, calls. The state is not: the save under way is
        sent again."""
        self._requests.lose()
        for socket in list(self.sockets.values()):
            socket.ended()
        self._asks.lose()

    def _arrived(self, mail: Mail) -> None:
        self._mailbox.put(mail)
        self._changed()

    # Sockets

    def _connect(self, opened: Opened) -> None:
        stream = opened.stream
        if not self._takes_sockets:
            self._link.send(Reset(stream=stream, reason="this actor has no on_connect and no on_message"))
        elif len(self.sockets) >= MAX_SOCKETS or self._mailbox.is_full:
            reason = f"{MAX_SOCKETS:,} sockets are open at this actor, or 1,000 requests wait"
            self._link.send(Reset(stream=stream, reason=reason, code=TRY_AGAIN_LATER))
        else:
            socket = self.sockets[stream] = Socket(self, new_socket(stream, opened.head), accepted=False)
            self._link.open(stream)
            self._arrived(Mail(MailKind.CONNECT, socket=socket))

    def _heard_of_socket(self, socket: Socket, message: Piece | Credit | Reset) -> None:
        match message:
            case Credit(amount=amount):
                socket.window.grant(amount)
            case Reset():
                socket.ended()
            case Piece():
                self._message(socket, message)

    def _message(self, socket: Socket, piece: Piece) -> None:
        if not socket.is_open:
            return
        if self._mailbox.overflows:
            socket.abort("too much waits for this actor", TRY_AGAIN_LATER)
        else:
            try:
                message = piece.body.decode() if piece.text else piece.body
            except UnicodeDecodeError:
                socket.abort("a text message that is not UTF-8", NOT_TEXT)
                return
            self._arrived(Mail(MailKind.MESSAGE, socket=socket, message=message, size=cost(piece.body)))

    def met(self, socket: Socket) -> None:
        """Its on_connect has returned. A client that left meanwhile is told of all the same."""
        if socket.is_open:
            socket.accept()
            socket.seen = True
        elif not socket.closed_here:
            self._arrived(Mail(MailKind.DISCONNECT, socket=socket))

    def socket_closed(self, socket: Socket) -> None:
        """By either end. One that on_connect did not accept has no on_disconnect."""
        self._link.close(socket.stream)
        self.sockets.pop(socket.stream, None)
        if socket.seen and not self._over:
            self._arrived(Mail(MailKind.DISCONNECT, socket=socket))

    # What leaves

    def send(self, message: FromActor) -> None:
        self._link.send(message)

    def emit(self, then: Action, size: int = 0, dropped: Action | None = None) -> None:
        self.work.emit(then, size, dropped)

    def point(self) -> None:
        """What the turn did so far is final. If its request is answered already, so is the answer."""
        self.work.point(self._kept_answer())

    def ask(
        self, name: ActorName, head: RequestHead, body: bytes, pool: str, reply: tuple[Answered, float] | None
    ) -> int:
        """The number of the call. `reply`: what is called with its answer, and how many seconds it waits for one."""
        start = self.start
        chain = (*(self.request.head.chain if self.request is not None else ()), start.actor_id)
        if len(body) > MAX_REQUEST_BYTES:
            raise InvalidRequest(f"a request has at most {MAX_REQUEST_BYTES:,} bytes, not {len(body):,}")
        if reply is not None and name == ActorName(start.namespace, start.name, start.key):
            raise InvalidRequest("an actor that calls itself would wait for ever; tell is possible")
        if reply is not None and len(chain) > MAX_CHAIN:
            raise Unavailable(f"more than {MAX_CHAIN} actors would wait for each other")
        if len(self._asks) >= MAX_CALLS:
            raise Unavailable(f"{MAX_CALLS:,} calls of this actor wait for their answers already")
        ask = ActorAsk(
            call=self._link.new_call(),
            actor_id=start.actor_id,
            generation=start.generation,
            name=name,
            head=_chained(head, chain if reply is not None else ()),
            body=body,
            reply=reply is not None,
            pool=pool,
        )
        if reply is not None:
            answered, timeout_s = reply
            self.point()
            self._asks.begin(ask.call, timeout_s, answered)
        self.work.emit(lambda: self._link.send(ask), len(body))
        return ask.call

    def forget_call(self, call: int) -> None:
        self._asks.cancel(call)

    # Turns

    def begin_turn(self) -> None:
        """One without a mail: on_start, on_stop."""
        self.work.begin()

    def take(self) -> Mail | None:
        """The next turn begins. None: there is nothing to do now, or more waits to be saved than an actor may hold."""
        if self.work.gate.is_full and self.ending is None:
            return None
        mail = self._mailbox.take()
        if mail is None:
            return None
        self._active_ms = self._link.clock.now_ms()
        self.work.begin()
        if mail.request is not None:
            mail.request.seen = True
            self.request = mail.request
        if mail.kind is MailKind.MESSAGE and mail.socket is not None and mail.socket.is_open:
            self._link.send(Credit(stream=mail.socket.stream, amount=mail.size))
        if mail.kind is MailKind.ALARM:
            self.work.alarm_ms = 0
        return mail

    def take_last(self) -> Mail | None:
        """After on_stop. The end of a socket is told yet; what its node was given no credit for it gives again, to the
        next activation."""
        while (mail := self._mailbox.take()) is not None:
            if mail.kind is MailKind.DISCONNECT:
                self.work.begin()
                return mail
        return None

    def finish_turn(self) -> None:
        """Raises StateError: then the turn has to be failed."""
        self.work.finish(self._kept_answer())
        if self._wants_destruction:
            self._end_with(Ending(destroyed=True))
        self._end_turn()

    def fail_turn(self, reason: str) -> None:
        self.work.fail()
        self._wants_sleep = self._wants_destruction = False
        if self.request is not None:
            self.request.fail(reason)
        self._end_turn()

    def _kept_answer(self) -> KeptAnswer | None:
        return self._requests.kept_answer(self.request) if self.request is not None else None

    def _end_turn(self) -> None:
        request, self.request = self.request, None
        self._active_ms = self._link.clock.now_ms()
        if request is not None:
            self._requests.settled(request)
        if self._wants_sleep:
            self._look_at_idleness()

    # The end

    def finish(self) -> None:
        """It may do what waits already."""
        self._end_with(Ending())

    def destroy(self) -> None:
        """When this turn has ended, and unless it fails."""
        self._wants_destruction = True
        if not self.work.in_turn:
            self._end_with(Ending(destroyed=True))

    def sleep(self) -> None:
        """As soon as nothing waits."""
        self._wants_sleep = True
        if not self.work.in_turn:
            self._look_at_idleness()

    def settle(self, then: Action) -> None:
        """When all is saved."""
        self.work.gate.release(then)

    def over(self, reason: str) -> None:
        """The code has ended, and nothing of it leaves any more."""
        self._over = True
        self._stop_looking()
        self.work.gate.close()
        self._requests.end(reason)
        for socket in list(self.sockets.values()):
            if not socket.accepted:
                self._link.send(Reset(stream=socket.stream, reason=reason, refused=True))
            socket.ended()
        self._asks.lose()

    def ended(self, *, failed: bool) -> Ending:
        """A socket with messages that its client had no window for is not held, but closed."""
        ending = self.ending or Ending()
        if failed:
            return Ending(failed=True, destroyed=ending.destroyed)
        if ending.asleep:
            quiet = [each for each in self.sockets.values() if each.accepted and each.is_open and not each.unsent_bytes]
            return Ending(asleep=True, sockets=tuple(each.held() for each in quiet))
        return ending

    def _end_with(self, ending: Ending) -> None:
        if self.ending is None or (ending.destroyed and not self.ending.destroyed):
            self.ending = ending
            if ending != Ending():  # A stop is its node's idea, and its worker waits for it.
                self._stop_looking()
                self._timer = self._link.clock.call_later(ENDING_MS, self._link.interrupt)
            self._changed()

    # Idleness

    @property
    def is_idle(self) -> bool:
        """Nothing is under way, so that only the state and the sockets need to be kept."""
        quiet = not self.work.in_turn and not len(self._mailbox) and not len(self._requests) and not len(self._asks)
        return quiet and self.work.gate.is_settled and self._can_hold_sockets

    @property
    def _can_hold_sockets(self) -> bool:
        held = 0
        for each in self.sockets.values():
            if not each.accepted or each.unsent_bytes or not each.is_open:
                return False
            headers = sum(len(name) + len(value) for name, value in each.head.headers)
            held += SOCKET_BYTES + headers + len(each.head.path) + len(each.head.query) + len(each.attachment)
        return held <= MAX_HELD_BYTES

    def _look_at_idleness(self) -> None:
        now_ms = self._link.clock.now_ms()
        left_ms = self._active_ms + (self._sleep_after_ms or 0.0) - now_ms
        if (self._wants_sleep or left_ms <= 0) and self.is_idle:
            self._end_with(Ending(asleep=True))
        elif self._wants_sleep:
            self._look_later(SOON_MS)
        elif self._sleep_after_ms is not None:
            self._look_later(left_ms if left_ms > 0 else self._sleep_after_ms)

    def _look_later(self, after_ms: float) -> None:
        self._stop_looking()
        if not self._over and self.ending is None:
            self._timer = self._link.clock.call_later(after_ms, self._look_at_idleness)

    def _stop_looking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def refused(message: ActorRequest | Opened, reason: str) -> Response | Reset:
    """The code will not see it; its node gives it to the next activation."""
    if isinstance(message, Opened):
        return Reset(stream=message.stream, reason=reason, refused=True)
    return Response(request_id=message.request_id, body=reason.encode(), error=True, refused=True)


def _chained(head: RequestHead, chain: tuple[str, ...]) -> RequestHead:
    return replace(head, chain=chain)
