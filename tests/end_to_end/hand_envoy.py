"""An envoy that says what a test wants it to say: also what the SDK never would."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from websockets.sync.client import ClientConnection, connect

from epoxy.codec.envoy_frames import batch, to_envoy
from epoxy.model.envoy_messages import EnvoyHello, FromEnvoy, Held, Ping, ToEnvoy, Welcome
from epoxy.testing import ClusterNode
from tests.end_to_end.recorder import PATIENCE_S

T = TypeVar("T", bound=ToEnvoy)

LOOK_S = 0.1
"""Between two pings, while it listens. It sends none while it does not."""


@contextmanager
def hand_envoy(node: ClusterNode, pool: str, key: str, *running: Held) -> Iterator["HandEnvoy"]:
    """Connected and welcome."""
    address = f"ws://{node.url.removeprefix('http://')}/v2/envoys/connect"
    with connect(address, compression=None, proxy=None) as socket:
        envoy = HandEnvoy(socket)
        envoy.say(EnvoyHello(namespace="default", pool=pool, envoy_key=key, incarnation=key, running=running))
        envoy.hear(Welcome)
        yield envoy


class HandEnvoy:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._heard: list[ToEnvoy] = []

    def say(self, message: FromEnvoy) -> None:
        self._socket.send(batch([message]))

    def hear(self, kind: type[T]) -> T:
        """The next message of this kind. Others before it are skipped."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            while self._heard:
                message = self._heard.pop(0)
                if isinstance(message, kind):
                    return message
            self.say(Ping(sent_ms=int(time.monotonic() * 1000)))
            self._receive()
        raise AssertionError(f"no {kind.__name__} in {PATIENCE_S:.0f} s")

    def _receive(self) -> None:
        try:
            frame = self._socket.recv(LOOK_S)
        except TimeoutError:
            return
        assert isinstance(frame, bytes)
        self._heard += to_envoy.read(frame, text=False)
