"""The gateway leaves, and another node becomes the gateway: no request fails meanwhile.

    gateway                                       heir                            other nodes
    GatewayLeaves   while everything is served    closes clients' connections     forward nothing more to the gateway
    closes its own clients' connections
    PauseRequests                                 both begin nothing more, and end what is under way
    gives the system shard to the heir
                                                  loads it, connects to peers
                                  GatewayIsHere   goes on                         go on

Each step is for what the step before has left without work, so at no time is a request under way whose node, or whose
gateway, is gone. Requests wait in `Routes`, for as long as those that wait for an owner. Nothing rests on it: a node
that hears nothing more goes on by itself, and a gateway whose questions are not answered ends nevertheless.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from epoxy.datacenter.announcements import Confirmations
from epoxy.datacenter.messages import GatewayIsHere, GatewayLeaves, PauseRequests, Received
from epoxy.datacenter.ports import Answered, Messenger, ShardOwners
from epoxy.model.shards import SYSTEM_SHARD
from epoxy.ports import Clock, Timer

ROOM_MS = 6000.0
"""For the heir to close its clients' connections. Requests under way end within a few round trips, and those that wait
for a quorum that is away after the time limits of clients; the gateway does not wait for those."""

PAUSE_MS = 2000.0
"""For all nodes to end what is under way, during which new requests wait: less than they wait for an owner."""

LOOK_MS = 10.0
"""Between two looks whether it has ended."""

TABLE_MS = 25.0
"""Between two looks at the table of shards, for the next gateway: requests wait for it."""

LONGEST_MS = 8000.0
"""For a node to go on without a word of the next gateway, or of the one that leaves: longer than each step above."""

RECEIVED = Received()


class SystemOwners(ShardOwners, Protocol):
    """Of `store.postgres.ownership.Ownership`."""

    def let_go(self) -> None:
        """The system shard is not served here any more."""


class PausedRequests(Protocol):
    """Of `routes.Routes`."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class GatewayHandover:
    """One for each session. `make_room`: the heir closes its clients' connections, and calls back. `is_busy`: whether
    something that clients asked for is under way here; `is_asked`: at a gateway, whether other nodes have asked for it.
    `rested` and `resumed` are called when nothing is under way any more, and when requests are served again."""

    def __init__(self, owners: SystemOwners, links: Messenger, routes: PausedRequests, clock: Clock) -> None:
        self._owners = owners
        self._links = links
        self._routes = routes
        self._clock = clock
        self.make_room: Callable[[Callable[[], None]], None] = at_once
        self.is_busy: Callable[[], bool] = lambda: False
        self.is_asked: Callable[[], bool] = lambda: False
        self.rested: Callable[[], None] = nothing
        self.resumed: Callable[[], None] = nothing
        self.is_leaving = False
        """Whether the gateway has said that it leaves, and no next one that it is there."""
        self.is_heir = False
        self._is_paused = False
        self._next_gateway = 0
        self._patience: Timer | None = None
        self._looking: Timer | None = None
        links.serve(GatewayLeaves, self._serve_leaves)
        links.serve(PauseRequests, self._serve_pause)
        links.serve(GatewayIsHere, self._serve_here)

    def stop(self) -> None:
        for timer in (self._patience, self._looking):
            if timer is not None:
                timer.cancel()

    # The gateway that leaves.

    def announce(self, heir: int, then: Callable[[bool], None]) -> None:
        """Call when the others are prepared, or after a time limit: with True if the heir is."""
        ready = False

        def done() -> None:
            then(ready)

        def answered(session: int, answer: Any) -> None:
            nonlocal ready
            ready = ready or (session == heir and type(answer) is Received)
            confirmed.add(session)

        sessions = tuple(self._links.sessions)
        confirmed = Confirmations(sessions, self._clock, ROOM_MS, done)
        for session in sessions:
            self._links.ask(session, GatewayLeaves(heir), partial(answered, session))

    def pause_others(self, then: Callable[[], None]) -> None:
        """Call when nothing is under way at the others, or after a time limit."""
        sessions = tuple(self._links.sessions)
        rested = Confirmations(sessions, self._clock, PAUSE_MS + LOOK_MS, then)
        for session in sessions:
            self._links.ask(session, PauseRequests(), partial(rested.add, session))

    def let_go(self, then: Callable[[], None]) -> None:
        """At a gateway without clients of its own: the others come to rest, and ask nothing more of it. Call when it
        has answered what they asked before."""
        self.pause_others(partial(self._let_go, then))

    def _let_go(self, then: Callable[[], None]) -> None:
        self._owners.let_go()
        self._end(then, self._clock.now_ms() + PAUSE_MS)

    def _end(self, then: Callable[[], None], deadline_ms: float) -> None:
        if self.is_asked() and self._clock.now_ms() < deadline_ms:
            self._clock.call_later(LOOK_MS, partial(self._end, then, deadline_ms))
        else:
            then()

    # The gateway that comes.

    def take_up(self) -> None:
        """This node is the gateway, serves, and votes."""
        self._resume()
        for session in tuple(self._links.sessions):
            self._links.tell(session, GatewayIsHere())

    # The other nodes.

    def _serve_leaves(self, sender: int, leaves: GatewayLeaves, answered: Answered) -> None:
        if not self._is_gateway(sender):
            answered(RECEIVED)
            return
        self.is_leaving, self.is_heir = True, leaves.heir == self._owners.session
        self._next_gateway = 0
        self._be_patient()
        if self.is_heir:
            self.make_room(lambda: answered(RECEIVED))
        else:
            answered(RECEIVED)

    def _serve_pause(self, sender: int, _: PauseRequests, answered: Answered) -> None:
        if not self._is_gateway(sender):
            answered(RECEIVED)
            return
        self._be_patient()
        self._is_paused = True
        self._routes.pause()
        self._rest(answered, self._clock.now_ms() + PAUSE_MS)

    def _rest(self, answered: Answered, deadline_ms: float) -> None:
        if not self._is_paused:
            answered(RECEIVED)
        elif self.is_busy() and self._clock.now_ms() < deadline_ms:
            self._clock.call_later(LOOK_MS, partial(self._rest, answered, deadline_ms))
        else:
            self.rested()
            answered(RECEIVED)
            self._look()

    def _look(self) -> None:
        """Until the next gateway is there, by the table, too: what goes on asks the one that the table names."""
        self._looking = None
        if not self._is_paused:
            return
        if self._next_gateway and self._is_gateway(self._next_gateway):
            self._resume()
        else:
            self._owners.look()
            self._looking = self._clock.call_later(TABLE_MS, self._look)

    def _serve_here(self, sender: int, _: GatewayIsHere, __: Answered) -> None:
        self._next_gateway = sender
        if self._is_gateway(sender):
            self._resume()

    def _is_gateway(self, session: int) -> bool:
        owner = self._owners.owner_of(SYSTEM_SHARD)
        return owner is not None and owner.id == session

    def _be_patient(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self._clock.call_later(LONGEST_MS, self._resume)

    def _resume(self) -> None:
        """A session that owns the system shard, and is no gateway yet, goes on when it is one."""
        self.stop()
        self._patience = self._looking = None
        was_leaving = self.is_leaving or self._is_paused
        self.is_leaving = self.is_heir = self._is_paused = False
        if was_leaving:
            self.resumed()
            self._routes.resume()


def nothing() -> None:
    """What a part without the rest of a node does."""


def at_once(then: Callable[[], None]) -> None:
    then()
