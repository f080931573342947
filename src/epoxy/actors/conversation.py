"""What a node does about the messages of one envoy's connection, without IO: for the server and the simulator."""

from collections.abc import Callable
from typing import assert_never

from epoxy.actors.hosting import EnvoyLink, Hosting
from epoxy.actors.streams import FromActor
from epoxy.model.actors import parse_id
from epoxy.model.envoy_messages import (
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

MAX_RTT_MS = 2**31 - 1
"""Three weeks in milliseconds, and the most that the row of an envoy holds."""


class Conversation:
    """`session` is the connection, as hosting knows it; `ask` passes on what its actors ask of others, if they may."""

    def __init__(
        self, hosting: Hosting, session: EnvoyLink, ask: Callable[[EnvoyId, ActorAsk], None] | None = None
    ) -> None:
        self.envoy: EnvoyId | None = None
        self._ask = ask
        self._hosting = hosting
        self._session = session

    def heard(self, message: FromEnvoy) -> None:
        try:
            self._take(message)
        except KeyInUse as refusal:
            self.reject(str(refusal), expired=refusal.retry)
        except InvalidRequest as error:
            self.reject(str(error))

    def lost(self) -> None:
        if self.envoy is not None:
            self._hosting.disconnected(self.envoy, self._session)

    def reject(self, reason: str, *, expired: bool = False) -> None:
        self._session.send(Rejected(message=reason, expired=expired))
        self._session.close(reason)

    def _take(self, message: FromEnvoy) -> None:
        if isinstance(message, EnvoyHello):
            if self.envoy is not None:
                raise InvalidRequest("hello comes once")
            self.envoy = self._hosting.connect(message, self._session)
        elif self.envoy is None:
            raise InvalidRequest("the first message is hello")
        elif self._hosting.sessions.get(self.envoy) is self._session:
            self._obey(self.envoy, message)

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
            if self._hosting.may_promise():
                self._session.send(Pong(sent_ms=ping.sent_ms))
        else:
            self.reject("expired", expired=True)

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
