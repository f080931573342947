"""The link to one peer: queues messages, sends them in batches, and delivers replies or `Failed`.

A message leaves at once while few batches are under way, or if none has left for a millisecond. Otherwise messages
gather until a millisecond is over or an answer comes. So a quiet link adds no delay, however long it is, and a busy one
sends few batches. A message without a callback, the news of a decision, takes the next batch, or one of its own after
two milliseconds, on a busy link after ten.

    connecting  at the start: messages wait for the first connection
    up          answers come
    down        connecting failed, or an answer did not come in time: messages fail at once, and probes are sent
"""

import asyncio
import logging
import math
import re
import time
from collections import deque
from collections.abc import Sequence
from enum import Enum
from functools import partial

from epoxy.codec import wire
from epoxy.model.errors import CodecError
from epoxy.model.incarnation import MismatchCode
from epoxy.model.messages import Reply
from epoxy.ports import Timer
from epoxy.transport.http.request import HttpReply
from epoxy.transport.http.response import message_of, problem_of
from epoxy.transport.limits import PeerLimits
from epoxy.transport.peers import auth
from epoxy.transport.peers.authenticator import LOST_STATUS
from epoxy.transport.peers.batch import Answered, Batch, Envelope, RecentLag, WindowedMinimum, deliver, fail
from epoxy.transport.peers.frames import FrameDial, PeerHandshake, mismatch_text
from epoxy.transport.peers.link_context import Identity, LinkContext
from epoxy.transport.peers.reconnect import PeerConnections
from epoxy.transport.peers.session import StartCheck
from epoxy.transport.peers.signed_header import SignedHeader

log = logging.getLogger("epoxy.peers")

NUMBERS = re.compile(r"\d+")
"""Reasons that differ in their numbers alone are logged once: a clock that is off is off by more each second."""

MAX_REASONS = 16
"""Logged while a peer is unreachable. Its answers are part of the reasons, and may differ each time."""


REFUSED_STATUS = 403
OBJECTIONS = frozenset([code.value for code in MismatchCode])
"""Codes of such an answer: the peer does not hear this node's store."""


class LinkState(Enum):
    CONNECTING = "connecting"
    UP = "up"
    DOWN = "down"


class PeerLink:
    def __init__(self, peer: int, url: str, identity: Identity, context: LinkContext, limits: PeerLimits) -> None:
        self.id = peer
        self.state = LinkState.CONNECTING
        self.rtt = WindowedMinimum()
        self.lag = RecentLag()
        self.messages_sent = 0
        self.batches_sent = 0
        self._identity = identity
        self._context = context
        self._limits = limits
        make = partial(FrameDial, begin=self._begin_handshake)
        self._connections = PeerConnections(
            url, context, limits, on_ready=self._on_ready, on_failed=self._on_failed, make=make
        )
        # Read for every message, and faster than a field of a record.
        self._queue_messages, self._queue_most = limits.queue_messages, limits.queue_bytes
        self._queue: deque[Envelope] = deque()
        self._queue_bytes = 0
        self._flying: deque[Batch] = deque()
        self._flying_count = self._flying_bytes = 0
        self._probed_ms = self._left_ms = -math.inf
        self._ticked_ms = self._heard_ms = context.clock.now_ms()
        self._flush_is_next = False
        self._gathering: Timer | None = None
        self._is_lazy = False
        self._lazy_ms = limits.lazy_ms
        self.trouble = ""
        """The last failure while the peer is not reachable, else empty."""
        self._logged: set[str] = set()
        self._closed = False

    def start(self) -> None:
        self._connections.start()

    async def stop(self) -> None:
        """Fail all that waits, and wait for the end of the connections."""
        self._end()
        await self._connections.stop()
        self._expire(math.inf)

    def close(self) -> None:
        """As `stop`, without waiting: the peer is no member any more, or has moved."""
        self._end()
        self._connections.close()
        self._expire(math.inf)

    def _end(self) -> None:
        self.state = LinkState.DOWN
        self._closed = True

    @property
    def refused(self) -> int:
        """How often the peer refused a connection (`PeerConnections`)."""
        return self._connections.refused

    @property
    def lost(self) -> int:
        """How often the peer ended one that was open."""
        return self._connections.lost

    @property
    def reachable(self) -> bool:
        return self.state is LinkState.UP

    def waited_ms(self) -> float:
        """For the oldest answer that is outstanding; 0: none is."""
        oldest = next((batch.left_ms for batch in self._flying if not batch.done), math.inf)
        return max(0.0, self._context.clock.now_ms() - oldest)

    def silent_ms(self) -> float:
        """Since its last answer, or since this link was made."""
        return self._context.clock.now_ms() - self._heard_ms

    def send(self, requests: bytes, count: int, answered: Answered | None) -> None:
        """`count` encoded requests. They count as queued since the last tick: reading the clock for each costs more."""
        envelope = (requests, count, answered, self._ticked_ms)
        if self.state is LinkState.DOWN:
            fail(envelope, "unreachable")
        elif len(self._queue) >= self._queue_messages or self._queue_bytes >= self._queue_most:
            fail(envelope, "queue full")
        else:
            self._queue.append(envelope)
            self._queue_bytes += len(requests)
            if self._flush_is_next:
                return
            if answered is not None:
                if self._gathering is None or self._is_lazy:
                    self._flush_soon()
            elif self._gathering is None:
                self._flush_within(self._lazy_ms, lazy=True)

    def tick(self) -> None:
        """Fail what has waited too long, and send a probe when one is due."""
        now_ms, before_ms = self._context.clock.now_ms(), self._ticked_ms
        self._ticked_ms = now_ms
        if now_ms - before_ms < 2 * self._limits.tick_ms:
            self._expire(now_ms - self._limits.timeout_ms)
        # Else this process stood still, and may not have read answers that came meanwhile: the next tick decides.
        self._connections.renew(self._identity.keys.spoken)
        every_ms = self._limits.tick_ms if self.state is LinkState.DOWN else self._limits.probe_ms
        if now_ms - self._probed_ms >= every_ms:
            self._probe()

    # Connecting.

    def _begin_handshake(self, host: bytes) -> PeerHandshake:
        header = self._identity.header(self.id, self._context.dice.nonce())
        versions = self._identity.versions
        assert versions is not None, "set with the links"
        return PeerHandshake(host, self._identity.keys.spoken, header, self._identity.gate, versions)

    # Sending.

    def _probe(self) -> None:
        if self._connections.best() is not None:
            self._probed_ms = self._context.clock.now_ms()
            self._send_batch(Batch([], 0, self._probed_ms), 0)

    def _flush_soon(self) -> None:
        """Together with other messages of this turn of the event loop, or of the next millisecond."""
        if self._flush_is_next:
            return
        quiet_ms = self._context.clock.now_ms() - self._left_ms
        if self._flying_count < self._limits.eager_batches or quiet_ms >= self._limits.gather_ms:
            self._flush_is_next = True
            asyncio.get_running_loop().call_soon(self._flush)
        elif self._gathering is None or self._is_lazy:
            self._flush_within(self._limits.gather_ms, lazy=False)

    def _flush_within(self, delay_ms: float, *, lazy: bool) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
        self._gathering = self._context.clock.call_later(delay_ms, self._flush)
        self._is_lazy = lazy

    def _flush(self) -> None:
        self._flush_is_next = False
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        while self._queue and self._has_room and self._connections.best() is not None:
            self._send_next_batch()

    @property
    def _has_room(self) -> bool:
        return self._flying_count < self._limits.flying_batches and self._flying_bytes < self._limits.flying_bytes

    def _send_next_batch(self) -> None:
        queue, most, most_bytes = self._queue, self._limits.batch_messages, self._limits.batch_bytes
        envelopes: list[Envelope] = []
        count = size = 0
        while queue and count < most and size < most_bytes:
            envelope = queue.popleft()
            envelopes.append(envelope)
            count += envelope[1]
            size += len(envelope[0])
        self._queue_bytes -= size
        self.messages_sent += count
        self._lazy_ms = self._limits.busy_lazy_ms if count >= self._limits.busy_messages else self._limits.lazy_ms
        self._left_ms = self._context.clock.now_ms()
        self._send_batch(Batch(envelopes, size, self._left_ms), count)

    def _send_batch(self, batch: Batch, count: int) -> None:
        try:
            body = wire.join_peer_request(
                self._identity.me, self.id, count, [envelope[0] for envelope in batch.envelopes]
            )
        except CodecError as error:
            log.error("a batch for replica %d cannot be encoded: %r", self.id, error)
            batch.fail(str(error))
            return
        self.batches_sent += 1
        self._flying.append(batch)
        self._flying_count += 1
        self._flying_bytes += batch.size
        self._context.link.there(self.id, partial(self._transmit, batch, body, time.perf_counter()))

    def _transmit(self, batch: Batch, body: bytes, left_s: float) -> None:
        if batch.done:
            return
        dial = self._connections.best()
        if dial is None:
            self._finish(batch)
            batch.fail("connection lost")
            return
        assert isinstance(dial, FrameDial)
        batch.dial = dial
        batch.there_ms = (time.perf_counter() - left_s) * 1000
        dial.ask(self._identity.epoch(), body, partial(self._on_answer, batch, dial.start, left_s))

    # Receiving.

    def _on_answer(self, batch: Batch, start: StartCheck | None, left_s: float, answer: HttpReply | None) -> None:
        batch.dial = None
        if answer is None:
            self._finish(batch)
            batch.fail("connection lost")
        elif answer.status != LOST_STATUS:
            assert start is not None, "an answer on a connection that is open"
            handle = partial(self._handle_answer, batch, start, left_s, answer)
            self._context.link.back(self.id, batch.there_ms, handle)

    def _handle_answer(self, batch: Batch, start: StartCheck, left_s: float, answer: HttpReply) -> None:
        if batch.done:
            return
        self._finish(batch)
        try:
            replies = self._replies(batch, start, answer)
        except (CodecError, PeerRefused) as error:
            if answer.status < 500:
                self._went_down(f"answered {answer.status}: {error}")
            batch.fail(f"answered {answer.status}: {error}")
            return
        elapsed_ms, now_ms = (time.perf_counter() - left_s) * 1000, self._context.clock.now_ms()
        # The distance is without the time the peer spent, mostly on its disk.
        self.rtt.add(max(0.0, elapsed_ms - answer.took_us / 1000), now_ms)
        self.lag.add(elapsed_ms - self.rtt.shortest, now_ms)
        self._heard_ms = now_ms
        self._went_up()
        self._deliver(batch, replies)
        if self._queue and not (self._gathering is not None and self._is_lazy):
            self._flush_soon()

    def _replies(self, batch: Batch, start: StartCheck, answer: HttpReply) -> Sequence[Reply]:
        if answer.status == REFUSED_STATUS:
            self._objected(answer)
        check_status(answer)
        mismatch = start.refusal(answer.position)
        if mismatch is not None:
            raise PeerRefused(mismatch_text(mismatch))
        if answer.recorded:
            self._identity.gate.answered(self.id)
        replies = wire.decode_peer_response(answer.body).replies
        if len(replies) > sum([envelope[1] for envelope in batch.envelopes]):
            raise PeerRefused("more replies than requests")
        return replies

    def _objected(self, answer: HttpReply) -> None:
        code, words = problem_of(answer.body)
        if code in OBJECTIONS:
            self._identity.gate.objected(self.id, MismatchCode(code))
        raise PeerRefused(f"{code}: {words}")

    def _deliver(self, batch: Batch, replies: Sequence[Reply]) -> None:
        """Replies that did not fit into the answer are missing at its end; their requests are sent again."""
        envelopes, batch.envelopes = batch.envelopes, []
        position = 0
        for place, (_, count, answered, _) in enumerate(envelopes):
            position += count
            if position > len(replies):
                self._requeue(envelopes[place:], nothing_came=not place)
                break
            if answered is not None:
                deliver(answered, replies[position - 1])

    def _requeue(self, rest: list[Envelope], *, nothing_came: bool) -> None:
        if nothing_came:
            fail(rest.pop(0), "the answer does not fit into a frame")
        self._queue.extendleft(reversed(rest))
        self._queue_bytes += sum(len(envelope[0]) for envelope in rest)

    def _finish(self, batch: Batch) -> None:
        if not batch.done:
            batch.done = True
            self._flying_count -= 1
            self._flying_bytes -= batch.size

    # Failures.

    def _expire(self, before_ms: float) -> None:
        while self._flying and (self._flying[0].done or self._flying[0].left_ms <= before_ms):
            batch = self._flying.popleft()
            if not batch.done:
                self._finish(batch)
                self._went_down("no answer in time")
                if batch.dial is not None:
                    batch.dial.abort()
                batch.fail("timeout")
        while self._queue and self._queue[0][3] <= before_ms:
            envelope = self._queue.popleft()
            self._queue_bytes -= len(envelope[0])
            fail(envelope, "timeout")

    def _on_ready(self) -> None:
        if self.state is not LinkState.UP:
            self._probe()
        self._flush_soon()

    def _on_failed(self, reason: str) -> None:
        self._went_down(reason)
        queue, self._queue, self._queue_bytes = self._queue, deque(), 0
        for envelope in queue:
            fail(envelope, "unreachable")

    def _went_up(self) -> None:
        if self.state is not LinkState.UP:
            log.info("replica %d is reachable", self.id)
            self.state = LinkState.UP
            self.trouble = ""
            self._logged.clear()

    def _went_down(self, reason: str) -> None:
        """Each new reason is logged once: after "connection refused" may come a certificate or a clock."""
        if self._closed:
            return
        self.state = LinkState.DOWN
        self.trouble = reason
        kind = NUMBERS.sub("#", reason)
        if kind not in self._logged and len(self._logged) < MAX_REASONS:
            self._logged.add(kind)
            log.warning("replica %d is unreachable: %s", self.id, reason)


class PeerRefused(Exception):
    """The answer is no list of replies from the peer."""


def check_answer(identity: Identity, secret: bytes, header: SignedHeader, mac: bytes, answer: HttpReply) -> None:
    """Verify the MAC of an answer in HTTP, under the secret of its request, and the store it came from. (A frame has
    its seal and its session.)"""
    check_status(answer)
    gate, peer = identity.gate, header.recipient
    given = answer.headers.get(auth.MAC_HEADER, b"")
    greeting = auth.greeting_of(secret, mac, answer.status, given, answer.body)
    if greeting is None:
        raise PeerRefused("not signed with the cluster's secret")
    if greeting.incarnation.store == 0:
        return  # This node is no member there. The answer says that, and nothing about a store.
    gate.told(peer, greeting.known)
    mismatch = gate.meet(peer, greeting, header.greeting.known)
    if mismatch is not None:
        raise PeerRefused(mismatch_text(mismatch))
    gate.answered(peer)


def check_status(answer: HttpReply) -> None:
    if answer.status != 200:
        raise PeerRefused(message_of(answer.body))
