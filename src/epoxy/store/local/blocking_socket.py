"""Questions to the first process that their caller waits for, from any thread, one at a time."""

import socket
import time
from threading import Lock

from msgspec import Raw

from epoxy.model.errors import StoreUnavailable
from epoxy.store.local.database_messages import AnyAsk, DatabaseAnswer, FrameBuffer, answer_decoder, framed

READ_S = 5.0
"""As long as an event loop may stand still: a node that is silent for longer counts as gone for its peers."""

RECEIVED_BYTES = 256 << 10
"""At once, at most."""


class BlockingSocket:
    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(True)
        self._socket = connected
        self._frames = FrameBuffer()
        self._lock = Lock()

    def ask(self, ask: AnyAsk) -> Raw:
        """Raises StoreUnavailable. An answer that comes too late is passed over by the next question."""
        with self._lock:
            deadline_s = time.monotonic() + READ_S
            try:
                self._socket.settimeout(READ_S)
                self._socket.sendall(framed(ask))
                answer = self._await(ask.number, deadline_s)
            except OSError as error:
                raise StoreUnavailable(f"the first process does not answer: {error}") from error
        if answer.failure:
            raise StoreUnavailable(answer.failure)
        return answer.value

    def close(self) -> None:
        self._socket.close()

    def _await(self, number: int, deadline_s: float) -> DatabaseAnswer:
        found: DatabaseAnswer | None = None
        while found is None:
            self._socket.settimeout(max(0.001, deadline_s - time.monotonic()))
            received = self._socket.recv(RECEIVED_BYTES)
            if not received:
                raise ConnectionResetError("its end of the socket is closed")
            for frame in self._frames.feed(received):
                answer = answer_decoder.decode(frame)
                if answer.number == number:
                    found = answer
        return found
