"""The links to other datacenters as a node sees them that is not the gateway: everything goes through that one."""

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from epoxy.codec import wire
from epoxy.datacenter.messages import LinkStates, Outgoing, PeerAnswered, PeerState
from epoxy.datacenter.ports import Answered, Messenger, ShardOwners
from epoxy.model.errors import CodecError
from epoxy.model.messages import Failed, Reply, Request
from epoxy.model.shards import SYSTEM_SHARD
from epoxy.ports import Clock, Timer

log = logging.getLogger("epoxy.nodes")

TICK_MS = 250.0
"""As the links to peers have it: `PeerLimits.tick_ms`."""

MAX_HELD = 4096
"""Messages to peers that wait for the next gateway: nothing begins meanwhile, so these are of what is done from time to
time, and confirmations of writes that are decided."""

STALE_MS = 1500.0
"""Without a word of the gateway, which reports four times a second, its links count as down."""

NO_GATEWAY = "this datacenter has no gateway at the moment"
SILENT_GATEWAY = "the gateway of this datacenter has not reported its links"


class GatewayLinks:
    """`node.timing.Links` over the link to the gateway."""

    def __init__(self, owners: ShardOwners, links: Messenger, clock: Clock) -> None:
        self._owners = owners
        self._links = links
        self._clock = clock
        self.ticked: Callable[[], None] = lambda: None
        self._states: dict[int, PeerState] = {}
        self._told_by = 0
        self._told_ms = -math.inf
        self._timer: Timer | None = None
        self._last: Request | None = None
        self._encoded = b""
        self.under_way = 0
        """Questions to peers that are not answered yet."""
        self._held: deque[Callable[[], None]] | None = None
        links.serve(LinkStates, self._hear_states)

    def start(self) -> None:
        self._tick()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def hold(self) -> None:
        """The gateway leaves: what is sent waits for the next one."""
        if self._held is None:
            self._held = deque()

    def release(self) -> None:
        held, self._held = self._held, None
        for send in held or ():
            send()

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        if self._held is not None and len(self._held) < MAX_HELD:
            self._held.append(partial(self.send, to, requests, answered))
            return
        gateway = self._gateway()
        if gateway is None:
            fail(answered, NO_GATEWAY)
            return
        try:
            outgoing = Outgoing(to, len(requests), self._encode(requests), answered is not None)
        except CodecError as error:
            log.error("requests for replica %d cannot be encoded: %r", to, error)
            fail(answered, str(error))
            return
        if answered is None:
            self._links.tell(gateway, outgoing)
        else:
            self.under_way += 1
            self._links.ask(gateway, outgoing, partial(self._replied, answered))

    def _replied(self, answered: Callable[[Reply], None], answer: Any) -> None:
        self.under_way -= 1
        replied(answered, answer)

    def _encode(self, requests: Sequence[Request]) -> bytes:
        """The same request is sent to one peer after the other, and encoded once."""
        if len(requests) > 1:
            return wire.encode_requests(requests)
        if requests[0] is not self._last:
            self._encoded = wire.encode_requests(requests)
            self._last = requests[0]
        return self._encoded

    # What the gateway knows of its links.

    def rtt_ms(self, peer: int) -> float | None:
        return self._states[peer].rtt_ms if peer in self._states else None

    def lag_ms(self, peer: int) -> float:
        return self._states[peer].lag_ms if peer in self._states else 0.0

    def waited_ms(self, peer: int) -> float:
        """As the gateway said: an answer may have come since then."""
        return self._states[peer].waited_ms if peer in self._states else 0.0

    def silent_ms(self, peer: int) -> float:
        """Until the report, and since then."""
        return self._states[peer].silent_ms + self._age_ms if peer in self._states else math.inf

    def reachable(self, peer: int) -> bool:
        return not self._flaw() and peer in self._states and self._states[peer].reachable

    def trouble(self, peer: int) -> str:
        return self._flaw() or (self._states[peer].trouble if peer in self._states else "")

    @property
    def _age_ms(self) -> float:
        return max(0.0, self._clock.now_ms() - self._told_ms)

    def _gateway(self) -> int | None:
        owner = self._owners.owner_of(SYSTEM_SHARD)
        return owner.id if owner is not None and owner.id != self._owners.session else None

    def _flaw(self) -> str:
        """Why no peer is reachable; empty: that is up to the peers. While messages wait for the next gateway, what the
        last one said counts."""
        gateway = self._gateway()
        if self._held is not None:
            return ""
        if gateway is None:
            return NO_GATEWAY
        return "" if gateway == self._told_by and self._age_ms <= STALE_MS else SILENT_GATEWAY

    def _hear_states(self, sender: int, states: LinkStates, answered: Answered) -> None:  # noqa: ARG002
        """One that was the gateway may not know yet that it is not any more."""
        if sender == self._gateway():
            self._told_by, self._told_ms = sender, self._clock.now_ms()
            self._states = {state.peer: state for state in states.peers}

    def _tick(self) -> None:
        self._timer = self._clock.call_later(TICK_MS, self._tick)
        self.ticked()


def replied(answered: Callable[[Reply], None], answer: Any) -> None:
    """A loss on the way to the gateway, or back, is as one on the way to the peer."""
    if type(answer) is PeerAnswered:
        try:
            answered(wire.decode_reply(answer.reply))
        except CodecError as error:
            fail(answered, repr(error))
    else:
        fail(answered, getattr(answer, "reason", f"answered with {type(answer).__name__}"))


def fail(answered: Callable[[Reply], None] | None, reason: str) -> None:
    if answered is not None:
        answered(Failed(reason=reason))
