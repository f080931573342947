"""What a node does about the messages of one envoy's connection, without IO: for the server and the simulator."""

from typing import assert_never

from epoxy.actors.hosting import EnvoyLink, Hosting
from epoxy.model.actors import (
    Draining,
    EnvoyHello,
    FromEnvoy,
    Goodbye,
    Ping,
    Pong,
    Rejected,
    Response,
    Running,
    Stopped,
    parse_id,
)
from epoxy.model.errors import InvalidRequest
from epoxy.protocol.placement.records import EnvoyId, KeyInUse

MAX_RTT_MS = 2**31 - 1
"""Three weeks in milliseconds, and the most that the row of an envoy holds."""


class Conversation:
    """`session` is the connection, as hosting knows it."""

    def __init__(self, hosting: Hosting, session: EnvoyLink) -> None:
        self.envoy: EnvoyId | None = None
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

    def _obey(self, envoy: EnvoyId, message: Ping | Running | Stopped | Draining | Goodbye | Response) -> None:
        hosting = self._hosting
        match message:
            case Ping():
                if not 0 <= message.rtt_ms <= MAX_RTT_MS:
                    raise InvalidRequest(f"rtt_ms is a number from 0 to {MAX_RTT_MS}, not {message.rtt_ms}")
                if hosting.ping(envoy, message.rtt_ms):
                    self._session.send(Pong(sent_ms=message.sent_ms))
                else:
                    self.reject("expired", expired=True)
            case Running():
                hosting.running(envoy, parse_id(message.actor_id), message.generation)
            case Stopped(failed=failed, cancelled=cancelled):
                actor_id = parse_id(message.actor_id)
                hosting.stopped(envoy, actor_id, message.generation, failed=failed, cancelled=cancelled)
            case Draining():
                hosting.drain(envoy)
            case Goodbye():
                hosting.leave(envoy, self._session)
            case Response():
                hosting.calls.heard(envoy, message)
            case _:
                assert_never(message)
