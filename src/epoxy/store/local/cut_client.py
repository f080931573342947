"""A cut of the store that the first process keeps: its jobs run in a thread here, and each read is a question."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import msgpack

from epoxy.model.errors import StoreError
from epoxy.ports import KeyValue, Snapshot
from epoxy.store.embedded.io_thread import IoThread, Post
from epoxy.store.local.blocking_socket import BlockingSocket
from epoxy.store.local.database_messages import CutRangeAsk, CutRowAsk

T = TypeVar("T")

row_decoder: "msgpack.Decoder[bytes | None]" = msgpack.Decoder(bytes | None)
rows_decoder = msgpack.Decoder(list[tuple[bytes, bytes]])


class FarCutView:
    """`number` draws one for each question."""

    def __init__(self, waiting: BlockingSocket, number: Callable[[], int], cut: int) -> None:
        self._waiting = waiting
        self._number = number
        self._cut = cut

    def get(self, key: bytes) -> bytes | None:
        return row_decoder.decode(self._waiting.ask(CutRowAsk(self._number(), self._cut, key)))

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        ask = CutRangeAsk(self._number(), self._cut, begin, end, limit, reverse)
        return rows_decoder.decode(self._waiting.ask(ask))


class CutClient:
    """`ended` is called once."""

    def __init__(self, view: FarCutView, post: Post, ended: Callable[["CutClient"], None]) -> None:
        self._view: FarCutView | None = view
        self._thread = IoThread("epoxy-cut", post)
        self._ended = ended

    def read(
        self, job: Callable[[Snapshot], T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        view = self._view
        if view is None:
            failed(StoreError("the cut is closed"))
        else:
            self._thread.submit(lambda: job(view), done, failed)

    def close(self) -> None:
        """Returns when the job under way has ended."""
        if self._view is not None:
            self._view = None
            self._thread.close()
            self._ended(self)
