"""What a node does about the messages of one envoy's connection, without IO: for the server and the simulator."""

from collections.abc import Callable
from functools import partial
from typing import assert_never

from epoxy.actors.hosting import EnvoyLink, Hosting, introduced
from epoxy.actors.streams import FromActor
from epoxy.model.actors import parse_id
from epoxy.model.envoy_messages import (
    PROTOCOL_VERSION,
    ActorAsk,
    Draining,
    EnvoyHello,
    FromEnvoy,
    Goodbye,
    Ping,
    Pong,
    Rejected,
    Response,
    Running,
    SaveState,
    Stopped,
)
from epoxy.model.errors import InvalidRequest
from epoxy.model.exchanges import Credit, Head, Piece, Reset
from epoxy.protocol.placement.records import EnvoyId, KeyInUse

MAX_EARLY = 1_000
"""Messages of an envoy that wait behind its hello, a few seconds at most: more than its actors can end meanwhile."""

NO_PROMISE = (
    "this datacenter cannot promise to be a home of actors for long enough: it cannot reach enough others, or has just"
    " started"
)

MAX_RTT_MS = 2**31 - 1
"""Three weeks in milliseconds, and the most that the row of an envoy holds."""


class Conversation:
    """`session` is the connection, as hosting knows it; `ask` passes on what its actors ask of others, if they may.

    A welcome is a promise, as an answer to a ping is: the envoy goes on for `lost_after_ms` without another. So a hello
    waits until the lease of this datacenter allows for that, and what the envoy says meanwhile waits behind it."""

    def __init__(
        self, hosting: Hosting, session: EnvoyLink, ask: Callable[[EnvoyId, ActorAsk], None] | None = None
    ) -> None:
        self.envoy: EnvoyId | None = None
        self._ask = ask
        self._hosting = hosting
        self._session = session
        self._early: list[FromEnvoy] | None = None
        """What was said behind a hello that waits; None: none does."""
        self._is_over = False

    def heard(self, message: FromEnvoy) -> None:
        if self._is_over:
            return
        if self._early is None:
            self._guarded(partial(self._take, message))
        elif len(self._early) < MAX_EARLY:
            self._early.append(message)
        else:
            self.reject("too many messages before the welcome", expired=True)

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except KeyInUse as refusal:
            self.reject(str(refusal), expired=refusal.retry)
        except InvalidRequest as error:
            self.reject(str(error))

    def lost(self) -> None:
        self._is_over = True
        if self.envoy is not None:
            self._hosting.disconnected(self.envoy, self._session)

    def reject(self, reason: str, *, expired: bool = False) -> None:
        self._is_over = True
        self._session.send(Rejected(message=reason, expired=expired))
        self._session.close(reason)

    def _take(self, message: FromEnvoy) -> None:
        if isinstance(message, EnvoyHello):
            if self.envoy is not None:
                raise InvalidRequest("hello comes once")
            check_protocol(message)
            introduced(message)  # What cannot be accepted makes this datacenter ask for no lease.
            self._early = []
            self._hosting.when_leased(lambda _: self._guarded(partial(self._connect, message)))
        elif self.envoy is None:
            raise InvalidRequest("the first message is hello")
        elif self._hosting.sessions.get(self.envoy) is self._session:
            self._obey(self.envoy, message)

    def _connect(self, hello: EnvoyHello) -> None:
        early, self._early = self._early or [], None
        if self._is_over:
            return
        if not self._hosting.may_promise():
            self.reject(NO_PROMISE, expired=True)
            return
        self.envoy = self._hosting.connect(hello, self._session)
        for message in early:
            self.heard(message)

    def _obey(self, envoy: EnvoyId, message: FromEnvoy) -> None:
        hosting = self._hosting
        match message:
            case Ping():
                self._ping(envoy, message)
            case Running():
                hosting.running(envoy, parse_id(message.actor_id), message.generation)
            case Stopped():
                self._stopped(envoy, message)
            case SaveState():
                hosting.generations.save(envoy, message)
            case Draining():
                hosting.drain(envoy)
            case Goodbye():
                hosting.leave(envoy, self._session)
            case Response() | Head() | Piece() | Credit() | Reset():
                self._answer(envoy, message)
            case ActorAsk() if self._ask is not None:
                self._ask(envoy, message)
            case EnvoyHello() | ActorAsk():
                raise InvalidRequest(f"not taken: {type(message).__name__}")
            case _:
                assert_never(message)

    def _ping(self, envoy: EnvoyId, ping: Ping) -> None:
        if not 0 <= ping.rtt_ms <= MAX_RTT_MS:
            raise InvalidRequest(f"rtt_ms is a number from 0 to {MAX_RTT_MS}, not {ping.rtt_ms}")
        if self._hosting.ping(envoy, ping.rtt_ms):
            self._hosting.fence(partial(self._promise, ping))
        else:
            self.reject("expired", expired=True)

    def _promise(self, ping: Ping) -> None:
        if self._hosting.may_promise():
            self._session.send(Pong(sent_ms=ping.sent_ms))

    def _answer(self, envoy: EnvoyId, message: Response | FromActor) -> None:
        """Not while the datacenter has no lease: another may be home by now, and its actor answers."""
        if self._hosting.lease() is not None:
            self._hosting.calls.heard(envoy, message)

    def _stopped(self, envoy: EnvoyId, message: Stopped) -> None:
        self._hosting.stopped(
            envoy,
            parse_id(message.actor_id),
            message.generation,
            failed=message.failed,
            cancelled=message.cancelled,
            asleep=message.asleep,
            sockets=message.sockets,
            destroyed=message.destroyed,
        )


def check_protocol(hello: EnvoyHello) -> None:
    """Workers of earlier releases are served; one that is ahead of its nodes may say what they do not understand."""
    if hello.protocol_version > PROTOCOL_VERSION:
        raise InvalidRequest(
            f"this worker speaks version {hello.protocol_version} of the protocol of workers, and this node "
            f"{PROTOCOL_VERSION} and earlier ones: upgrade the nodes first, then the workers"
        )
