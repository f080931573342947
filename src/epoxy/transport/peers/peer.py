"""The link to one peer: messages wait here, leave together, and come back as answers or as `Failed`.

A message leaves at once while few batches are under way, or if none has left for a millisecond. Otherwise they gather,
and a batch carries whatever came together in a millisecond or while an answer was awaited. So a quiet link adds no
delay, however long it is, and a busy one few batches. What nobody awaits an answer to, the news of a decision, takes
the next batch, or one of its own after two milliseconds, on a busy link after ten.

    hoping    no verdict yet: messages wait for the first connection
    up        answers come
    down      connecting failed, or an answer did not come in time: messages fail at once, and probes look for life
"""

import asyncio
import logging
import math
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial

from epoxy.codec import wire
from epoxy.model.errors import CodecError
from epoxy.model.messages import Reply
from epoxy.ports import Timer
from epoxy.transport.http.request import HttpReply
from epoxy.transport.http.response import message_of
from epoxy.transport.limits import PeerLimits
from epoxy.transport.peers import auth
from epoxy.transport.peers.authenticator import LOST_STATUS
from epoxy.transport.peers.batch import Answered, Batch, Envelope, Shortest, fail, tell
from epoxy.transport.peers.dial import Dial
from epoxy.transport.peers.frames import FrameDial, PeerHello
from epoxy.transport.peers.link_context import Identity, LinkContext
from epoxy.transport.peers.reconnect import Lanes, LinkObserver

log = logging.getLogger("epoxy.peers")

NUMBERS = re.compile(r"\d+")
"""Reasons that differ in their numbers are one: a clock that is off is off by more each second."""

MAX_REASONS = 16
"""Told between two times that a peer was reachable. What it answers is its own, and may differ each time."""


class LinkState(Enum):
    HOPING = "hoping"
    UP = "up"
    DOWN = "down"


class PeerLink:
    def __init__(self, peer: int, url: str, identity: Identity, world: LinkContext, limits: PeerLimits) -> None:
        self.id = peer
        self.state = LinkState.HOPING
        self.rtt = Shortest()
        self.messages_sent = 0
        self.batches_sent = 0
        self._identity = identity
        self._world = world
        self._limits = limits
        self._lanes = Lanes(url, world.ssl, world.dice, limits, LinkObserver(self._ready, self._failed), self._dial)
        # Looked at for every message: a field of a record takes longer.
        self._queue_messages, self._queue_most = limits.queue_messages, limits.queue_bytes
        self._queue: deque[Envelope] = deque()
        self._queue_bytes = 0
        self._flying: deque[Batch] = deque()
        self._flying_count = self._flying_bytes = 0
        self._probed_ms = self._left_ms = -math.inf
        self._ticked_ms = world.clock.now_ms()
        self._flush_is_next = False
        self._gathering: Timer | None = None
        self._is_lazy = False
        self._lazy_ms = limits.lazy_ms
        self.trouble = ""
        """Why it is not reachable, in the words of the last failure; empty while it is."""
        self._told: set[str] = set()
        self._closed = False

    def start(self) -> None:
        self._lanes.start()

    async def stop(self) -> None:
        """Everything that waits fails."""
        self._end()
        await self._lanes.stop()
        self._expire(math.inf)

    def close(self) -> None:
        """It is no member any more, or has moved: as `stop`, without waiting for the end of its connections."""
        self._end()
        self._lanes.close()
        self._expire(math.inf)

    def _end(self) -> None:
        self.state = LinkState.DOWN
        self._closed = True

    @property
    def reachable(self) -> bool:
        return self.state is LinkState.UP

    def send(self, requests: bytes, count: int, answered: Answered | None) -> None:
        """`count` encoded requests. That they wait is counted from the last tick: a clock for each costs more."""
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
        """Time passes: what waited too long fails, and now and then the round trip is measured."""
        now_ms, before_ms = self._world.clock.now_ms(), self._ticked_ms
        self._ticked_ms = now_ms
        if now_ms - before_ms < 2 * self._limits.tick_ms:
            self._expire(now_ms - self._limits.timeout_ms)
        # Else it was we who stood still, and answers that came meanwhile are not read yet: the next tick looks again.
        every_ms = self._limits.tick_ms if self.state is LinkState.DOWN else self._limits.probe_ms
        if now_ms - self._probed_ms >= every_ms:
            self._probe()

    # Connecting.

    def _dial(self, drained: Callable[[], None]) -> Dial:
        return FrameDial(drained, self._hello)

    def _hello(self) -> PeerHello:
        claim = self._identity.claim(self.id, self._world.dice.nonce())
        return PeerHello(self._lanes.netloc, self._identity.secret, claim)

    # Leaving.

    def _probe(self) -> None:
        if self._lanes.best() is not None:
            self._probed_ms = self._world.clock.now_ms()
            self._leave(Batch([], 0, self._probed_ms), 0)

    def _flush_soon(self) -> None:
        """Together with what else comes up in this turn of the event loop, or in the next millisecond."""
        if self._flush_is_next:
            return
        quiet_ms = self._world.clock.now_ms() - self._left_ms
        if self._flying_count < self._limits.eager_batches or quiet_ms >= self._limits.gather_ms:
            self._flush_is_next = True
            asyncio.get_running_loop().call_soon(self._flush)
        elif self._gathering is None or self._is_lazy:
            self._flush_within(self._limits.gather_ms, lazy=False)

    def _flush_within(self, delay_ms: float, *, lazy: bool) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
        self._gathering = self._world.clock.call_later(delay_ms, self._flush)
        self._is_lazy = lazy

    def _flush(self) -> None:
        self._flush_is_next = False
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        while self._queue and self._has_room and self._lanes.best() is not None:
            self._gather()

    @property
    def _has_room(self) -> bool:
        return self._flying_count < self._limits.flying_batches and self._flying_bytes < self._limits.flying_bytes

    def _gather(self) -> None:
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
        self._left_ms = self._world.clock.now_ms()
        self._leave(Batch(envelopes, size, self._left_ms), count)

    def _leave(self, batch: Batch, count: int) -> None:
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
        self._world.link.there(self.id, partial(self._post, batch, body, time.perf_counter()))

    def _post(self, batch: Batch, body: bytes, left_s: float) -> None:
        if batch.over:
            return
        dial = self._lanes.best()
        if dial is None:
            self._finish(batch)
            batch.fail("connection lost")
            return
        assert isinstance(dial, FrameDial)
        batch.dial = dial
        batch.there_ms = (time.perf_counter() - left_s) * 1000
        dial.ask(self._identity.epoch(), body, partial(self._heard, batch, left_s))

    # Coming back.

    def _heard(self, batch: Batch, left_s: float, answer: HttpReply | None) -> None:
        batch.dial = None
        if answer is None:
            self._finish(batch)
            batch.fail("connection lost")
        elif answer.status != LOST_STATUS:
            self._world.link.back(self.id, batch.there_ms, partial(self._back, batch, left_s, answer))

    def _back(self, batch: Batch, left_s: float, answer: HttpReply) -> None:
        if batch.over:
            return
        self._finish(batch)
        try:
            replies = self._replies(batch, answer)
        except (CodecError, PeerRefused) as error:
            if answer.status < 500:
                self._went_down(f"answered {answer.status}: {error}")
            batch.fail(f"answered {answer.status}: {error}")
            return
        self._measure(answer, (time.perf_counter() - left_s) * 1000)
        self._went_up()
        self._hand_over(batch, replies)
        if self._queue and not (self._gathering is not None and self._is_lazy):
            self._flush_soon()

    def _replies(self, batch: Batch, answer: HttpReply) -> Sequence[Reply]:
        check_store(self._identity, self.id, answer, answer.store)
        replies = wire.decode_peer_response(answer.body).replies
        if len(replies) > sum([envelope[1] for envelope in batch.envelopes]):
            raise PeerRefused("more replies than requests")
        return replies

    def _hand_over(self, batch: Batch, replies: Sequence[Reply]) -> None:
        """Replies that did not fit into the answer are missing at its end, and asked for again."""
        envelopes, batch.envelopes = batch.envelopes, []
        position = 0
        for told, (_, count, answered, _) in enumerate(envelopes):
            position += count
            if position > len(replies):
                self._ask_again(envelopes[told:], nothing_came=not told)
                break
            if answered is not None:
                tell(answered, replies[position - 1])

    def _ask_again(self, rest: list[Envelope], *, nothing_came: bool) -> None:
        if nothing_came:
            fail(rest.pop(0), "the answer does not fit into a frame")
        self._queue.extendleft(reversed(rest))
        self._queue_bytes += sum(len(envelope[0]) for envelope in rest)

    def _measure(self, answer: HttpReply, elapsed_ms: float) -> None:
        """What the peer spent on its disk is no part of the distance."""
        self.rtt.add(max(0.0, elapsed_ms - answer.took_us / 1000), self._world.clock.now_ms())

    def _finish(self, batch: Batch) -> None:
        if not batch.over:
            batch.over = True
            self._flying_count -= 1
            self._flying_bytes -= batch.size

    # Failing.

    def _expire(self, before_ms: float) -> None:
        while self._flying and (self._flying[0].over or self._flying[0].left_ms <= before_ms):
            batch = self._flying.popleft()
            if not batch.over:
                self._finish(batch)
                self._went_down("no answer in time")
                if batch.dial is not None:
                    batch.dial.abort()
                batch.fail("timeout")
        while self._queue and self._queue[0][3] <= before_ms:
            envelope = self._queue.popleft()
            self._queue_bytes -= len(envelope[0])
            fail(envelope, "timeout")

    def _give_up(self, reason: str) -> None:
        queue, self._queue, self._queue_bytes = self._queue, deque(), 0
        for envelope in queue:
            fail(envelope, reason)

    def _ready(self) -> None:
        if self.state is not LinkState.UP:
            self._probe()
        self._flush_soon()

    def _failed(self, reason: str) -> None:
        self._went_down(reason)
        self._give_up("unreachable")

    def _went_up(self) -> None:
        if self.state is not LinkState.UP:
            log.info("replica %d is reachable", self.id)
            self.state = LinkState.UP
            self.trouble = ""
            self._told.clear()

    def _went_down(self, reason: str) -> None:
        """Each new reason is told once: behind "connection refused" may come a certificate or a clock."""
        if self._closed:
            return
        self.state = LinkState.DOWN
        self.trouble = reason
        kind = NUMBERS.sub("#", reason)
        if kind not in self._told and len(self._told) < MAX_REASONS:
            self._told.add(kind)
            log.warning("replica %d is unreachable: %s", self.id, reason)


class PeerRefused(Exception):
    """The peer, or whoever is there, answered something else than replies."""


def check_answer(identity: Identity, peer: int, mac: bytes, answer: HttpReply) -> None:
    """Of an answer in HTTP, which proves itself; a frame's seal has done that."""
    header = answer.headers.get(auth.MAC_HEADER, b"")
    store = auth.store_of(identity.secret, mac, answer.status, header, answer.body) if answer.status == 200 else 0
    if store is None:
        raise PeerRefused("not signed with the cluster's secret")
    check_store(identity, peer, answer, store)


def check_store(identity: Identity, peer: int, answer: HttpReply, store: int) -> None:
    """What another store than the peer's own has to say counts for nothing: `membership.identity`."""
    if answer.status != 200:
        raise PeerRefused(words_of(answer))
    if not identity.heard(peer, store):
        raise PeerRefused(f"another store is on record for replica {peer}")


def words_of(answer: HttpReply) -> str:
    return message_of(answer.body)
