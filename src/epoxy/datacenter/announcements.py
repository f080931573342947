"""What the gateway tells the other nodes of its datacenter, until each of them has confirmed it: new configurations,
and clients' sessions that are over.

A configuration is adopted in these steps, and one that comes meanwhile waits for them:

    ComeToRest      the other nodes run no rule any more, and what their rules have written is durable
                    the gateway adopts it; with that, the database refuses batches of the epoch before
    UpdateConfig    the other nodes adopt it, when it is durable
    GoOn            they run rules again

A node that does not answer in time is not waited for: it is the epoch in the database that keeps its votes of the epoch
before from becoming durable. To rest first only saves it from a batch that is refused.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from epoxy.codec import wire
from epoxy.datacenter.messages import ComeToRest, ForwardedReplies, ForwardedRequests, GoOn, Received, SessionOver
from epoxy.datacenter.ports import Messenger
from epoxy.model.cluster import ClusterConfig
from epoxy.model.errors import CodecError
from epoxy.model.frames import PeerRequest
from epoxy.model.messages import ConfigOk, Reply, UpdateConfig
from epoxy.ports import Clock

REST_MS = 500.0
"""For the other nodes to come to rest: many times what a batch takes. Clients' requests wait meanwhile."""

CONFIG_MS = 1000.0
"""For the other nodes to confirm a configuration. Those that have not are told again, and find out by the database."""

MAX_ENDED_SESSIONS = 4096
"""Clients' sessions that ended and that a node has not confirmed: more than end within a minute. With one more the
oldest is forgotten; its keys end when another node takes their shard."""


class Confirmations:
    """Calls once: when all of these sessions have answered, or after a time limit."""

    def __init__(self, sessions: Iterable[int], clock: Clock, limit_ms: float, done: Callable[[], None]) -> None:
        self._open = set(sessions)
        self._done = done
        self._is_done = False
        self._timer = clock.call_later(limit_ms, self._finish) if self._open else None
        if not self._open:
            self._finish()

    def add(self, session: int, _: Any = None) -> None:
        self._open.discard(session)
        if not self._open:
            self._finish()

    def _finish(self) -> None:
        if not self._is_done:
            self._is_done = True
            if self._timer is not None:
                self._timer.cancel()
            self._done()


class NodeNews:
    """What one other node has confirmed, and what it has not."""

    __slots__ = ("config_epoch", "config_is_asked", "over", "over_is_asked")

    def __init__(self) -> None:
        self.config_epoch = 0
        self.config_is_asked = self.over_is_asked = False
        self.over: deque[bytes] = deque(maxlen=MAX_ENDED_SESSIONS)


class Announcements:
    def __init__(
        self,
        links: Messenger,
        clock: Clock,
        *,
        me: int,
        config: Callable[[], ClusterConfig],
        when_durable: Callable[[Callable[[], None]], None],
    ) -> None:
        """`me`: the replica. `config`: in force at the gateway. `when_durable`: of its store."""
        self._links = links
        self._clock = clock
        self._me = me
        self._config = config
        self._when_durable = when_durable
        self._news: dict[int, NodeNews] = {}
        self._to_adopt: list[Callable[[], None]] = []
        self._is_adopting = False

    def tick(self) -> None:
        """Tell again what is not confirmed."""
        sessions, epoch = self._links.sessions, self._config().epoch
        for gone in [session for session in self._news if session not in sessions]:
            del self._news[gone]
        late = [each for each in sessions if self._of(each).config_epoch < epoch and not self._of(each).config_is_asked]
        if late and not self._is_adopting:
            self._when_durable(self.tell_config)
        for session in tuple(sessions):
            self._tell_over(session)

    # Configurations.

    def rest_first(self, adopt: Callable[[], None]) -> None:
        """`Replica.rest_first`."""
        self._to_adopt.append(adopt)
        if not self._is_adopting:
            self._is_adopting = True
            self._rest()

    def _rest(self) -> None:
        sessions = tuple(self._links.sessions)
        rested = Confirmations(sessions, self._clock, REST_MS, self._adopt)
        for session in sessions:
            self._links.ask(session, ComeToRest(), partial(rested.add, session))

    def _adopt(self) -> None:
        adopt, self._to_adopt = self._to_adopt, []
        for each in adopt:
            each()
        self._when_durable(partial(self.tell_config, self._go_on))

    def _go_on(self) -> None:
        if self._to_adopt:
            self._rest()
            return
        self._is_adopting = False
        for session in tuple(self._links.sessions):
            self._links.tell(session, GoOn())

    def tell_config(self, done: Callable[[], None] = lambda: None) -> None:
        """Tell the others the configuration in force, which has to be durable: a node that adopts it answers in its
        epoch at once, and nothing may take the datacenter back to the epoch before. Call `done` when they have
        confirmed it, or after a time limit."""
        config = self._config()
        late = [session for session in self._links.sessions if self._of(session).config_epoch < config.epoch]
        confirmed = Confirmations(late, self._clock, CONFIG_MS, done)
        for session in late:
            self._tell_config(session, config, confirmed)

    def _tell_config(self, session: int, config: ClusterConfig, confirmed: Confirmations) -> None:
        news = self._of(session)
        news.config_is_asked = True

        def answered(answer: Any) -> None:
            news.config_is_asked = False
            replies = replies_of(answer)
            if replies and isinstance(replies[0], ConfigOk) and replies[0].epoch >= config.epoch:
                news.config_epoch = max(news.config_epoch, replies[0].epoch)
                confirmed.add(session)

        request = PeerRequest(sender=self._me, recipient=self._me, requests=(UpdateConfig(config=config),))
        self._links.ask(session, ForwardedRequests(wire.encode_peer_request(request)), answered)

    # Clients' sessions.

    def session_over(self, session: bytes) -> None:
        for node in tuple(self._links.sessions):
            self._of(node).over.append(session)
            self._tell_over(node)

    def _tell_over(self, session: int) -> None:
        """One at a time, the oldest first."""
        news = self._of(session)
        if news.over_is_asked or not news.over:
            return
        told, news.over_is_asked = news.over[0], True

        def answered(answer: Any) -> None:
            news.over_is_asked = False
            if type(answer) is Received:
                if news.over and news.over[0] == told:
                    news.over.popleft()
                self._tell_over(session)

        self._links.ask(session, SessionOver(told), answered)

    def _of(self, session: int) -> NodeNews:
        return self._news.setdefault(session, NodeNews())


def replies_of(answer: Any) -> tuple[Reply, ...] | None:
    """Of a node that was asked to handle requests; None: it did not say."""
    if type(answer) is not ForwardedReplies:
        return None
    try:
        return wire.decode_peer_response(answer.body).replies
    except CodecError:
        return None
