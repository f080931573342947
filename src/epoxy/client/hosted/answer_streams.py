"""An answer that is sent in pieces, beside the turns of its actor."""

import asyncio
from collections.abc import AsyncIterable, Callable

from epoxy.client.hosted.unit_of_work import UnitOfWork
from epoxy.client.hosted.windows import SendWindow
from epoxy.model.exchanges import WHOLE_BYTES, Piece, Reset


class AnswerStream:
    """Its pieces pass the output gate, too. `over` is called when it has ended, whichever end ended it."""

    def __init__(
        self, number: int, work: UnitOfWork, send: Callable[[Piece | Reset], None], over: Callable[[], None]
    ) -> None:
        self.is_open = True
        self.changed = asyncio.Event()
        self.window = SendWindow(send, self.changed.set)
        self._number = number
        self._work = work
        self._send = send
        self._over = over
        self._held_bytes = 0

    async def run(self, content: AsyncIterable[bytes]) -> None:
        """Raises what the iterator raises; the client then sees a broken answer. The iterator is closed in any case."""
        pieces = aiter(content)
        try:
            async for piece in pieces:
                if not isinstance(piece, bytes | bytearray | memoryview):
                    raise TypeError(f"an answer in pieces is made of bytes, not {type(piece).__name__}")
                await self._put(bytes(piece))
                if not self.is_open:
                    return
            self._emit(b"", fin=True)
        except BaseException as error:
            self.break_off(f"the answer broke off: {type(error).__name__}")
            raise
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    def break_off(self, reason: str) -> None:
        if self.is_open:
            self._send(Reset(stream=self._number, reason=reason))
            self.end()

    def end(self) -> None:
        if self.is_open:
            self.is_open = False
            self.window.drop()
            self.changed.set()
            self._over()

    async def _put(self, body: bytes) -> None:
        for begin in range(0, len(body), WHOLE_BYTES):
            self._emit(body[begin : begin + WHOLE_BYTES], fin=False)
            while self.is_open and self._held_bytes + self.window.unsent_bytes > 0:
                self.changed.clear()
                await self.changed.wait()

    def _emit(self, body: bytes, *, fin: bool) -> None:
        def leave() -> None:
            self._held_bytes -= len(body)
            if self.is_open:
                self.window.push(Piece(stream=self._number, body=body, fin=fin))
                if fin:
                    self.window.finish(self.end)

        self._held_bytes += len(body)
        self._work.emit(leave, len(body), beside=True)
