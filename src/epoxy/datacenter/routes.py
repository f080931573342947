"""The way of a client's request to the owner of its key, inside one datacenter; and the end of that way.

A node that is asked by another one serves the key itself or answers `NotOwner`. It never passes a request on, so two
nodes with different tables cannot send one in circles. The node that asked tries again when its table names another
owner, or after a while.

What a request may be told:

    a write left, and the link was lost or the time is over    unknown: it may take effect
    too many requests wait for the owner, or it is too long    refused: nothing was done
    no owner, a hand-over, `NotOwner`, no link to the owner    it waits, and is refused when that takes too long:
    a read left, and no answer came                            if the owner has failed, another takes its shards
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from epoxy.codec import wire
from epoxy.datacenter.answer_kinds import READS, TXNS, WRITES, AnswerKind, may_be_asked_again
from epoxy.datacenter.messages import (
    ComeToRest,
    ForwardedReplies,
    ForwardedRequests,
    GoOn,
    NotOwner,
    OrderedReadAsk,
    OrderedWriteAsk,
    ReadAsk,
    Received,
    SessionOver,
    Unanswerable,
)
from epoxy.datacenter.ports import Answered, Messenger, NeverSent, ServedKeys, ShardOwners
from epoxy.model.errors import CodecError
from epoxy.model.messages import (
    Accept,
    Carry,
    CarryAnswers,
    Commit,
    Failed,
    Inspect,
    Prepare,
    Read,
    Reply,
    Request,
    UpdateConfig,
)
from epoxy.model.records import Proposal
from epoxy.model.shards import SYSTEM_SHARD, shard_of
from epoxy.model.transactions import Txn, TxnOutcome
from epoxy.model.writes import Consistency, Outcome, ReadAnswer, Write
from epoxy.ports import Clock, Timer
from epoxy.transport.peers.transport import encode_replies

PATIENCE_MS = 3000.0
"""For an owner. Shorter than the four seconds that clients of Redis have by default, and longer than a hand-over."""

LOOK_MS = 50.0
"""Between looks at the table for requests that wait. A hand-over takes a few of these."""

AGAIN_MS = 250.0
"""Before the same node is asked again: it looks at the table that often."""

MAX_WAITING = 4096
"""Requests that wait for an owner: as many as come in a second and a half at 3,000 a second."""

LONGEST_REST_MS = 5000.0
"""Until a node that rests runs rules again, without a word of the gateway: longer than all that one waits for."""

NOT_OWNER = NotOwner()
RECEIVED = Received()
NOT_SERVED = Failed(reason="the node that was asked does not own the key")

KEYED = frozenset([Prepare, Accept, Commit, Read, Inspect, Carry, CarryAnswers])
"""Requests of peers that go to the owner of their key. The others are the gateway's."""


ENDS = ("answered", "refused", "unknown")
"""What becomes of requests that are passed on, as metrics name it."""


class RoutedRequest:
    """One request on its way."""

    __slots__ = ("again_ms", "answered", "deadline_ms", "kind", "question", "refused_by", "shard")

    def __init__(self, shard: int, question: Any, kind: AnswerKind, answered: Callable[[Any], None]) -> None:
        self.shard = shard
        self.question = question
        self.kind = kind
        self.answered = answered
        self.deadline_ms = 0.0
        """0: it has not waited yet."""
        self.refused_by = 0
        self.again_ms = 0.0
        """Not before that moment is the node asked again that did not serve it."""


class Routes:
    """`ports.OwnerRoutes`, and what other nodes ask of this one."""

    def __init__(
        self,
        owners: ShardOwners,
        links: Messenger,
        served: ServedKeys,
        clock: Clock,
        *,
        patience_ms: float = PATIENCE_MS,
    ) -> None:
        """`table_changed` is to be called when the table of `owners` is another one."""
        self._owners = owners
        self._links = links
        self._served = served
        self._clock = clock
        self._patience_ms = patience_ms
        self._waiting: deque[RoutedRequest] = deque()
        self.forwarded = Counter({(kind.name, end): 0 for kind in (WRITES, READS, TXNS) for end in ENDS})
        self._timer: Timer | None = None
        self._resting: Timer | None = None
        self._is_paused = self._is_stopped = False
        links.serve(Write, self._serve_write)
        links.serve(ReadAsk, self._serve_read)
        links.serve(Txn, self._serve_txn)
        links.serve(OrderedWriteAsk, self._serve_ordered_write)
        links.serve(OrderedReadAsk, self._serve_ordered_read)
        links.serve(ForwardedRequests, self._serve_requests)
        links.serve(SessionOver, self._serve_session_over)
        links.serve(ComeToRest, self._serve_rest)
        links.serve(GoOn, self._serve_go_on)

    def stop(self) -> None:
        """Refuse what waits."""
        self._is_stopped = True
        for timer in (self._timer, self._resting):
            if timer is not None:
                timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            self._refuse(request, "this node is stopping")

    @property
    def waiting(self) -> int:
        """Requests that wait for an owner."""
        return len(self._waiting)

    # What the node asks.

    @property
    def is_gateway(self) -> bool:
        return SYSTEM_SHARD in self._owners.owned

    def is_mine(self, key: bytes) -> bool:
        return not self._is_paused and shard_of(key) in self._owners.owned

    def runs(self, key: bytes) -> bool:
        return shard_of(key) in self._owners.owned

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        self._route(RoutedRequest(shard_of(write.key), write, WRITES, answered))

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        self._route(RoutedRequest(shard_of(key), ReadAsk(key, consistency), READS, answered))

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        self._route(RoutedRequest(SYSTEM_SHARD, txn, TXNS, answered))

    def ordered_write(self, write: Write, mark: Proposal, answered: Callable[[Outcome], None]) -> None:
        self._route(RoutedRequest(SYSTEM_SHARD, OrderedWriteAsk(write, mark), WRITES, answered))

    def ordered_read(
        self, key: bytes, mark: Proposal, consistency: Consistency, answered: Callable[[ReadAnswer], None]
    ) -> None:
        self._route(RoutedRequest(SYSTEM_SHARD, OrderedReadAsk(key, mark, consistency), READS, answered))

    def table_changed(self) -> None:
        if self._waiting:
            self._look()

    def pause(self) -> None:
        """Requests wait from here on, those of other nodes among them; what is under way goes on."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self.table_changed()

    def _route(self, request: RoutedRequest) -> None:
        owners = self._owners
        if self._is_paused:
            self._wait(request)
            return
        if request.shard in owners.owned:
            self._serve_here(request)
            return
        owner = owners.owner_of(request.shard)
        if owner is None or owner.id == owners.session or self._was_asked_just_now(request, owner.id):
            self._wait(request)
        else:
            self._links.ask(owner.id, request.question, partial(self._heard, request, owner.id))

    def _was_asked_just_now(self, request: RoutedRequest, owner: int) -> bool:
        return owner == request.refused_by and self._clock.now_ms() < request.again_ms

    def _heard(self, request: RoutedRequest, owner: int, answer: Any) -> None:
        kind = request.kind
        if type(answer) in kind.outcomes:
            self.forwarded[kind.name, "answered"] += 1
            request.answered(answer)
        elif may_be_asked_again(answer, kind):
            request.refused_by = owner
            request.again_ms = self._clock.now_ms() + AGAIN_MS
            self._wait(request)
            self._owners.look()
        elif type(answer) is NeverSent:
            self._refuse(request, f"the node that owns the key cannot be asked: {answer.reason}")
        else:
            reason = getattr(answer, "reason", f"answered with {type(answer).__name__}")
            self.forwarded[kind.name, "unknown"] += 1
            request.answered(kind.unknown(f"no answer of the node that owns the key: {reason}"))

    def _refuse(self, request: RoutedRequest, reason: str) -> None:
        self.forwarded[request.kind.name, "refused"] += 1
        request.answered(request.kind.refused(reason))

    def _serve_here(self, request: RoutedRequest) -> None:
        """It became this node's while it waited, or the caller did not ask."""
        served, question, answered = self._served, request.question, request.answered
        match question:
            case Write():
                served.write(question, answered)
            case ReadAsk(key, consistency):
                served.read(key, consistency, answered)
            case Txn():
                served.txn(question, answered)
            case OrderedWriteAsk(write, mark):
                served.ordered_write(write, mark, answered)
            case OrderedReadAsk(key, mark, consistency):
                served.ordered_read(key, mark, consistency, answered)
            case _:
                raise AssertionError(question)

    # Waiting for an owner.

    def _wait(self, request: RoutedRequest) -> None:
        now_ms = self._clock.now_ms()
        if not request.deadline_ms:
            request.deadline_ms = now_ms + self._patience_ms
        if self._is_stopped:
            self._refuse(request, "this node is stopping")
        elif now_ms >= request.deadline_ms:
            shard = f"shard {request.shard} of this datacenter"
            self._refuse(request, f"{shard} has no owner that serves it; try again")
        elif len(self._waiting) >= MAX_WAITING:
            self._refuse(request, f"{MAX_WAITING} requests wait for an owner of their keys already")
        else:
            self._waiting.append(request)
            self._look_soon()

    def _look(self) -> None:
        """Each request is routed anew, and waits again if nothing has changed for it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, deque()
        try:
            while waiting:
                self._route(waiting.popleft())
        finally:
            # An exception in one callback must not stop the others.
            self._waiting.extend(waiting)
            self._look_soon()

    def _look_soon(self) -> None:
        """A function of its own: a request may have set the timer, which mypyc does not see within `_look`."""
        if self._waiting and self._timer is None:
            self._timer = self._clock.call_later(LOOK_MS, self._look)

    # What other nodes ask.

    def _serve_write(self, _: int, write: Write, answered: Answered) -> None:
        if self.is_mine(write.key):
            self._served.write(write, answered)
        else:
            self._put_off(RoutedRequest(shard_of(write.key), write, WRITES, answered))

    def _serve_read(self, _: int, ask: ReadAsk, answered: Answered) -> None:
        if self.is_mine(ask.key):
            self._served.read(ask.key, ask.consistency, answered)
        else:
            self._put_off(RoutedRequest(shard_of(ask.key), ask, READS, answered))

    def _serve_txn(self, _: int, txn: Txn, answered: Answered) -> None:
        self._serve_as_gateway(RoutedRequest(SYSTEM_SHARD, txn, TXNS, answered))

    def _serve_ordered_write(self, _: int, ask: OrderedWriteAsk, answered: Answered) -> None:
        self._serve_as_gateway(RoutedRequest(SYSTEM_SHARD, ask, WRITES, answered))

    def _serve_ordered_read(self, _: int, ask: OrderedReadAsk, answered: Answered) -> None:
        self._serve_as_gateway(RoutedRequest(SYSTEM_SHARD, ask, READS, answered))

    def _serve_as_gateway(self, request: RoutedRequest) -> None:
        if self.is_gateway and not self._is_paused:
            self._serve_here(request)
        else:
            self._put_off(request)

    def _put_off(self, request: RoutedRequest) -> None:
        """It waits here if this node is the one to ask, as soon as that goes on."""
        if request.shard in self._owners.owned:
            self._wait(request)
        else:
            request.answered(NOT_OWNER)

    def _serve_requests(self, _: int, ask: ForwardedRequests, answered: Answered) -> None:
        """Of another datacenter, through the gateway. Those of keys that are not owned here any more fail: their
        senders try again."""
        try:
            requests = wire.decode_peer_request(ask.body).requests
        except CodecError as error:
            answered(Unanswerable(repr(error)))
            return
        places = places_of(requests, self._owners.owned)
        if len(places) == len(requests):
            self._served.handle(requests, lambda replies: answered(ForwardedReplies(encode_replies(replies))))
        else:
            mine = [requests[place] for place in places]
            self._served.handle(mine, partial(self._reply_to_some, len(requests), places, answered))

    def _reply_to_some(self, count: int, places: list[int], answered: Answered, replies: Sequence[Reply]) -> None:
        joined: list[Reply] = [NOT_SERVED] * count
        for place, reply in zip(places, replies, strict=True):
            joined[place] = reply
        answered(ForwardedReplies(encode_replies(joined)))

    def _serve_session_over(self, _: int, over: SessionOver, answered: Answered) -> None:
        self._served.session_over(over.session)
        answered(RECEIVED)

    def _serve_rest(self, _: int, __: ComeToRest, answered: Answered) -> None:
        """If the gateway ends before it says more, the epoch in the database decides what may be written."""
        self._end_rest()
        self._resting = self._clock.call_later(LONGEST_REST_MS, self._go_on)
        self._served.hold(lambda: answered(RECEIVED))

    def _serve_go_on(self, _: int, __: GoOn, ___: Answered) -> None:
        self._go_on()

    def _go_on(self) -> None:
        if self._resting is not None:
            self._end_rest()
            self._served.release()

    def _end_rest(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None


def places_of(requests: Sequence[Request], owned: AbstractSet[int]) -> list[int]:
    """Of the requests that a node with these shards serves. A configuration is for every node."""
    return [
        place
        for place, request in enumerate(requests)
        if type(request) is UpdateConfig or shard_of_request(request) in owned
    ]


def shard_of_request(request: Request) -> int:
    """Of its key; without one it is the gateway's."""
    return shard_of(request.key) if type(request) in KEYED else SYSTEM_SHARD  # type: ignore[union-attr]
