"""The requests of one actor that are not answered yet: how they come in, and how their answers leave. Without IO."""

from collections.abc import AsyncIterable, Callable

from epoxy.client.hosted.answer_streams import AnswerStream
from epoxy.client.hosted.link import ActorLink
from epoxy.client.hosted.mailbox import MAX_QUEUED, Mail, Mailbox, MailKind
from epoxy.client.hosted.requests import PLAIN, Answer, FailedAnswer, Request, Response
from epoxy.client.hosted.unit_of_work import UnitOfWork
from epoxy.client.hosted.windows import BodyBuffer
from epoxy.codec.actor_documents import KeptAnswer
from epoxy.model.actors import MAX_REQUEST_BYTES
from epoxy.model.envoy_messages import ActorRequest, Opened
from epoxy.model.envoy_messages import Response as Responded
from epoxy.model.exchanges import Credit, Head, Piece, RequestHead, Reset

MAX_GATHERED = 64
"""Bodies of one actor that are gathered at a time, each of at most 1 MiB."""

LONGEST_LENGTH = 16
"""Digits of a declared length that is looked at: more is longer than any body that would be gathered."""

Pump = Callable[[AnswerStream, AsyncIterable[bytes]], None]
"""Runs the iterator of an answer that is sent in pieces."""


class OpenRequests:
    """`arrived`: there is mail. Numbers are those of one connection: an answer that comes after its end is dropped."""

    def __init__(
        self,
        actor_id: str,
        link: ActorLink,
        work: UnitOfWork,
        mailbox: Mailbox,
        unix_ms: Callable[[], int],
        arrived: Callable[[Mail], None],
        pump: Pump,
    ) -> None:
        self._actor_id = actor_id
        self._link = link
        self._work = work
        self._mailbox = mailbox
        self._unix_ms = unix_ms
        self._arrived = arrived
        self._pump = pump
        self._open: dict[int, Request] = {}
        self._streams: dict[int, AnswerStream] = {}
        self._same: dict[str, list[Request]] = {}
        """By idempotency key: a request is under way, and these wait for its answer."""

    def __len__(self) -> int:
        return len(self._open)

    # What comes in

    def asked(self, message: ActorRequest) -> None:
        request = Request(message.request_id, message.body, self._answered, head=message.head or PLAIN)
        self._open[request.number] = request
        self._take(request)

    def opened(self, message: Opened) -> None:
        """A body whose length is declared and short is gathered first. Others may go on for as long as they like, so
        the code gets them at once."""
        stream = message.stream

        def credit(amount: int) -> None:
            self._link.send(Credit(stream=stream, amount=amount))

        gather = message.fin or declared_bytes(message.head) <= MAX_REQUEST_BYTES
        if gather and sum(each.parked for each in self._open.values()) >= MAX_GATHERED:
            reason = f"{MAX_GATHERED} bodies are being received for this actor already"
            self._link.send(Reset(stream=stream, reason=reason, refused=True, busy=True))
            return
        buffer = BodyBuffer(credit, lambda: self._grew(request), gather=gather)
        request = Request(stream, b"", self._answered, head=message.head, buffer=buffer, streamed=True)
        request.parked = gather
        self._open[stream] = request
        self._link.open(stream)
        buffer.begin(message.body, fin=message.fin)
        if not gather:
            self._take(request)

    def _grew(self, request: Request) -> None:
        buffer = request.buffer
        assert buffer is not None, "only a request with a buffer grows"
        request.grew()
        if request.parked and buffer.unread_bytes > MAX_REQUEST_BYTES:
            request.refuse(f"the body has more than {MAX_REQUEST_BYTES:,} bytes, and more than it declared")
        elif request.parked and buffer.has_ended:
            request.parked = False
            self._take(request)

    def heard(self, message: Piece | Credit | Reset) -> None:
        """For a stream. Its client went away (`Reset`): a request that waits is not begun."""
        request = self._open.get(message.stream)
        stream = self._streams.get(message.stream)
        match message:
            case Piece(body=body, fin=fin):
                if request is not None and request.buffer is not None:
                    request.buffer.push(body, fin=fin)
            case Credit(amount=amount):
                if stream is not None:
                    stream.window.grant(amount)
            case Reset(reason=reason):
                if request is not None:
                    if not request.seen:
                        self._mailbox.remove({request.number})
                    self._forget(request, reason or "the client went away")
                    self.settled(request)

    def lose(self) -> None:
        """With the connection."""
        self._mailbox.remove(set(self._open))
        self._same.clear()
        for request in list(self._open.values()):
            self._forget(request, "the worker lost its connection")

    def _forget(self, request: Request, reason: str) -> None:
        self._close(request)
        if request.buffer is not None:
            request.buffer.fail(reason)
        stream = self._streams.get(request.number)
        if stream is not None:
            stream.end()

    def _take(self, request: Request) -> None:
        """Into the mailbox; or it is answered at once."""
        key = request.idempotency_key
        kept = self._work.answers.get(key, self._unix_ms()) if key else None
        if self._actor_id in request.head.chain:
            request.refuse("the actor would wait for itself: it is among those whose calls led here")
        elif self._mailbox.is_full:
            request.refuse(f"{MAX_QUEUED} requests wait for this actor already, or 16 MiB of them", busy=True)
        elif kept is not None:
            answer = answer_of(kept)
            request.answer = answer
            self._work.gate.release(lambda: self._leave(request, answer))
        elif key and key in self._same:
            self._same[key].append(request)
        else:
            if key:
                self._same[key] = []
            unread = request.buffer.unread_bytes if request.buffer is not None else len(request.body)
            self._arrived(Mail(MailKind.REQUEST, request=request, size=unread))

    # What leaves

    def _answered(self, request: Request, answer: Answer) -> None:
        def leave() -> None:
            self._leave(request, answer)

        def dropped() -> None:
            request.answer = None

        if isinstance(answer, FailedAnswer) and answer.refused:
            leave()
        else:
            size = len(answer.body) if isinstance(answer, Response) else len(answer.reason)
            self._work.emit(leave, size, dropped, hold=bool(request.idempotency_key))

    def _leave(self, request: Request, answer: Answer) -> None:
        if self._open.get(request.number) is not request:
            return
        number, send = request.number, self._link.send
        if isinstance(answer, FailedAnswer) and request.streamed:
            send(Reset(stream=number, reason=answer.reason, refused=answer.refused, busy=answer.busy))
        elif isinstance(answer, FailedAnswer):
            reason = answer.reason.encode(errors="replace")
            refused, busy = answer.refused, answer.busy
            send(Responded(request_id=number, body=reason, error=True, refused=refused, busy=busy))
        elif answer.content is not None or len(answer.body) > MAX_REQUEST_BYTES:
            self._begin_stream(request, answer)
            return
        elif request.streamed:
            head = Head(stream=number, status=answer.status, headers=answer.pairs, body=answer.body, fin=True)
            send(head)
        else:
            send(Responded(request_id=number, body=answer.body, status=answer.status, headers=answer.pairs))
        self._close(request)

    def _begin_stream(self, request: Request, answer: Response) -> None:
        def over() -> None:
            self._streams.pop(request.number, None)
            self._close(request)

        self._link.open(request.number)
        self._link.send(Head(stream=request.number, status=answer.status, headers=answer.pairs))
        stream = self._streams[request.number] = AnswerStream(request.number, self._work, self._link.send, over)
        self._pump(stream, answer.content if answer.content is not None else _once(answer.body))

    def _close(self, request: Request) -> None:
        if self._open.get(request.number) is request:
            del self._open[request.number]
            self._link.close(request.number)

    # The end of a turn, and of the actor

    def kept_answer(self, request: Request) -> KeptAnswer | None:
        """What is to be kept with the changes of a request's turn."""
        answer, key = request.answer, request.idempotency_key
        if not key or answer is None:
            return None
        at_ms = self._unix_ms()
        if isinstance(answer, FailedAnswer):
            return KeptAnswer(key=key, at_ms=at_ms, body=answer.reason.encode(errors="replace"), error=True)
        if answer.content is not None:
            return KeptAnswer(key=key, at_ms=at_ms, too_large=True)
        return KeptAnswer(key=key, at_ms=at_ms, status=answer.status, headers=answer.pairs, body=answer.body)

    def settled(self, request: Request) -> None:
        """Its turn has ended, or there will be none. Those that waited for its answer get it; if there is none, the
        first of them is run."""
        for each in self._same.pop(request.idempotency_key, []):
            if self._open.get(each.number) is each:
                self._take(each)

    def end(self, reason: str) -> None:
        """What the code has not seen may be given again. What it saw and whose answer has not left is not known."""
        for request in list(self._open.values()):
            stream = self._streams.get(request.number)
            if stream is not None:
                stream.break_off(reason)
            else:
                self._leave(request, FailedAnswer(reason, refused=not request.seen))


async def _once(body: bytes) -> AsyncIterable[bytes]:
    yield body


def answer_of(kept: KeptAnswer) -> Answer:
    if kept.too_large:
        return FailedAnswer("this request was carried out before; its answer was too large to be kept")
    if kept.error:
        return FailedAnswer(kept.body.decode(errors="replace"))
    response = Response(kept.body, kept.status)
    response.pairs = kept.headers
    return response


def declared_bytes(head: RequestHead) -> float:
    for name, value in head.headers:
        if name.lower() == "content-length" and value.isdecimal() and len(value) < LONGEST_LENGTH:
            return int(value)
    return float("inf")
