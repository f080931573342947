"""The stream of changes without a socket: server-sent events in, changes out, and where to go on after a loss."""

from collections.abc import Iterator
from urllib.parse import urlencode

from msgspec import Struct

from epoxy.client import calls, responses
from epoxy.client.http1 import AnswerReader, HttpResponse, NodeAddress, NotHttp, encode_request
from epoxy.client.limits import FIRST_PAUSE_S, MAX_EVENT_BYTES, MAX_PAUSE_S
from epoxy.client.results import Change
from epoxy.client.routing import Fleet, is_unauthenticated
from epoxy.model.errors import Unavailable

EVENT_STREAM = "text/event-stream"
GONE = "gone"


class Event(Struct, frozen=True, kw_only=True):
    """Without data it only moves the cursor on."""

    cursor: str | None
    data: str | None
    name: str | None = None


class EventReader:
    """Server-sent events, of which we use `event`, `id` and `data`. Lines end with LF or CR LF; nodes send no lone
    CR."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, list[str]] = {}
        self._size = 0

    def feed(self, part: bytes) -> Iterator[Event]:
        *lines, self._rest = (self._rest + part).split(b"\n")
        if len(self._rest) + self._size > MAX_EVENT_BYTES:
            raise NotHttp(f"sent an event of more than {MAX_EVENT_BYTES >> 20} MiB")
        for line in lines:
            yield from self._line(line.removesuffix(b"\r").decode("utf-8", errors="replace"))

    def _line(self, line: str) -> Iterator[Event]:
        if line:
            name, _, text = line.partition(":")
            self._fields.setdefault(name, []).append(text.removeprefix(" "))
            self._size += len(line)
            return
        fields, self._fields, self._size = self._fields, {}, 0
        data = "\n".join(fields["data"]) if "data" in fields else None
        cursor, kind = (fields[field][-1] if field in fields else None for field in ("id", "event"))
        yield Event(cursor=cursor, data=data, name=kind)


class Feed:
    """Follows the changes of one node: the first that answers, because a cursor means nothing to another. With a cursor
    of an earlier stream it is the first address."""

    def __init__(self, fleet: Fleet, prefix: bytes | str, after: str | None, *, follow: bool) -> None:
        self._prefix = calls.as_bytes(prefix, "prefix")
        self._cursor = after
        self._follow = follow
        self._token = fleet.token
        self._shown = ""
        self._candidates = list(fleet.nodes[:1] if after is not None else fleet.nodes)
        self._failures: list[str] = []
        self._settled = False
        self.pause_s = 0.0
        self.done = False
        """All there was has come, and the caller does not follow."""
        self._begin()

    def _begin(self) -> None:
        self._parts: list[bytes] = []
        self._reader = AnswerReader(on_body=self._parts.append)
        self._events = EventReader()
        self._refusal: str | None = None
        self.over = False
        """Nothing more will come out of this connection."""

    @property
    def node(self) -> NodeAddress:
        return self._candidates[0]

    def request(self) -> bytes:
        """Opens the stream where it ended."""
        self._begin()
        asked: dict[str, str | bytes] = {"prefix": self._prefix} if self._prefix else {}
        if self._cursor is not None:
            asked["after"] = self._cursor
        if not self._follow:
            asked["follow"] = "false"
        target = f"/v2/changes?{urlencode(asked)}" if asked else "/v2/changes"
        self._shown = self._token.value()
        return encode_request(self.node, "GET", target, accept=EVENT_STREAM, authorization=self._token.header())

    def feed(self, data: bytes) -> Iterator[Change]:
        try:
            answer = self._reader.feed(data)
            head = self._reader.head
            if head is not None and head.status == 200 and head.media_type == EVENT_STREAM:
                yield from self._changes()
            elif answer is not None:
                self._refused(answer)
        except NotHttp as error:
            self._refusal = str(error)
        except Unavailable as error:
            self._refusal = str(error)
        else:
            self.over = answer is not None
            self.done = self.over and not self._follow
            return
        self.over = True

    def _changes(self) -> Iterator[Change]:
        self._settle()
        parts = self._parts[:]
        self._parts.clear()
        for part in parts:
            for event in self._events.feed(part):
                if event.name == GONE and event.data is not None:
                    raise calls.gone(event.data)
                if event.data is not None:
                    yield calls.change(event.cursor or "", event.data)
                self._cursor = event.cursor or self._cursor

    def _refused(self, answer: HttpResponse) -> None:
        """With another token in its file by now, a stream that had begun is opened again; any other is refused."""
        if self._settled and is_unauthenticated(answer) and self._token.differs_from(self._shown):
            return
        responses.fail(answer, writes=False)

    def _settle(self) -> None:
        self._settled = True
        self._candidates = self._candidates[:1]
        self.pause_s = 0.0

    def ended(self, reason: str) -> None:
        """The connection could not be made, or is over. Before any node has answered the next is tried, and if there
        is none this raises; afterwards the same node is tried again for as long as it takes."""
        if self._settled:
            self.pause_s = min(MAX_PAUSE_S, max(FIRST_PAUSE_S, self.pause_s * 2))
            return
        self._failures.append(f"{self.node.url}: {self._refusal or reason}")
        self._candidates = self._candidates[1:]
        if not self._candidates:
            raise Unavailable("; ".join(self._failures))
