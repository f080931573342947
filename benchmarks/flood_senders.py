"""Floods: a process that sends prepared bytes to a node as fast as it takes them, or holds connections open.

    python -m benchmarks.flood_senders NAME HTTP_PORT RESP_PORT [ADDRESS]

It prints "ready" when its connections are open, runs until its input ends, and prints what it did as JSON. Little of
it is Python: the bytes are prepared once, and one `send` takes as many as the socket does.
"""

import base64
import json
import select
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from msgspec import Struct

HOT, LONG = b"flood/hot", b"flood/long"
"""Keys that the node has: a short value, and one of a mebibyte."""

CHUNK_BYTES = 256 << 10
DRIP_S = 0.5
"""Between two bytes of a slow client."""

SOURCE = "127.0.0.2"
"""Where a flood comes from: strangers have other addresses than peers."""

CHURN_EACH = 8
"""Connections that are renewed in one turn of the loop."""


class Flood(Struct, frozen=True, kw_only=True):
    """`door`: the port. `first` is sent once on each connection, then `repeated` again and again; `drip` instead: a
    byte now and then. `reads`: the answers are read, and thrown away. `renewed`: a connection is closed when its first
    bytes are sent, and opened anew."""

    name: str
    door: str
    connections: int
    first: bytes = b""
    repeated: bytes = b""
    drip: bytes = b""
    reads: bool = False
    renewed: bool = False


def get(path: bytes, *headers: bytes) -> bytes:
    return b"".join(
        (b"GET ", path, b" HTTP/1.1\r\nhost: localhost\r\n", *(line + b"\r\n" for line in headers), b"\r\n")
    )


def command(*words: bytes) -> bytes:
    return b"*%d\r\n%b" % (len(words), b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))


def websocket_frame(opcode: int, data: bytes = b"", *, size: int | None = None) -> bytes:
    """A client's frame with a mask of zero. `size`: the one it announces, if it has not that many bytes."""
    size = len(data) if size is None else size
    length = bytes([0x80 | size]) if size < 126 else b"\xff" + size.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + length + bytes(4) + data


OPEN_SOCKET = get(
    b"/v2/envoys/connect",
    b"connection: upgrade",
    b"upgrade: websocket",
    b"sec-websocket-version: 13",
    b"sec-websocket-key: " + base64.b64encode(b"k" * 16),
)
HELLO = b'{"type":"hello","namespace":"flood","pool":"p","envoy_key":"k"}'
STREAM = get(
    b"/v2/epoxy/stream", b"connection: upgrade", b"upgrade: epoxy-frames/3", b"authorization: Epoxy v3,1,1,1,1,1,1"
)
SLOW_BODY = b"PUT /v2/kv/flood%2Fslow HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n" + b"v" * 950_000
BAD_JSON = (
    b'POST /v2/txn HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 3\r\n\r\n"\xff"'
)
MESSAGE = b"POST /v2/epoxy/message HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2000\r\n\r\n" + b"\xff" * 2000
HOARD = command(b"WATCH", HOT) + command(b"MULTI") + command(b"SET", b"flood/multi", b"v" * 120_000)

FLOODS = {
    flood.name: flood
    for flood in (
        Flood(name="http-pipelines", door="http", connections=4, repeated=get(b"/v2/kv/" + HOT) * 2000, reads=True),
        Flood(name="http-lists", door="http", connections=4, repeated=get(b"/v2/kv?prefix=flood") * 500, reads=True),
        Flood(name="http-not-http", door="http", connections=8, first=b"\xff" * 64, reads=True, renewed=True),
        Flood(
            name="http-bad-json",
            door="http",
            connections=4,
            repeated=BAD_JSON * 1000,
            reads=True,
        ),
        Flood(name="http-unread", door="http", connections=96, repeated=get(b"/v2/kv/" + LONG) * 50),
        Flood(
            name="http-unread-quorum",
            door="http",
            connections=8,
            first=get(b"/v2/kv/" + LONG + b"?read=linearizable") * 100,
        ),
        Flood(name="http-slow-heads", door="http", connections=600, first=b"GET /v2/kv/k HTTP/1.1\r\n", drip=b"x"),
        Flood(name="http-slow-bodies", door="http", connections=150, first=SLOW_BODY, drip=b"v"),
        Flood(name="http-churn", door="http", connections=CHURN_EACH, first=get(b"/healthz"), reads=True, renewed=True),
        Flood(name="resp-pipelines", door="resp", connections=4, repeated=command(b"GET", HOT) * 5000, reads=True),
        Flood(name="resp-unread", door="resp", connections=96, repeated=command(b"GET", LONG) * 500),
        Flood(name="resp-empty-arrays", door="resp", connections=4, repeated=b"*0\r\n" * 50_000, reads=True),
        Flood(
            name="resp-tiny-arguments", door="resp", connections=4, repeated=command(*[b"x"] * 1020) * 36, reads=True
        ),
        Flood(name="resp-hoards", door="resp", connections=600, first=HOARD),
        Flood(
            name="resp-halves",
            door="resp",
            connections=100,
            first=b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n" + b"v" * 1_000_000,
            drip=b"v",
        ),
        Flood(name="resp-faults", door="resp", connections=8, first=b"$5\r\nnope\r\n", reads=True, renewed=True),
        Flood(
            name="worker-pings",
            door="http",
            connections=16,
            first=OPEN_SOCKET,
            repeated=websocket_frame(9, b"p" * 100) * 2000,
        ),
        Flood(
            name="worker-tiny-frames",
            door="http",
            connections=8,
            first=OPEN_SOCKET,
            repeated=websocket_frame(10) * 40_000,
            reads=True,
        ),
        Flood(
            name="worker-huge-frames",
            door="http",
            connections=64,
            first=OPEN_SOCKET + websocket_frame(1, b" " * 1_900_000, size=2_000_000),
            drip=b" ",
        ),
        Flood(name="worker-churn", door="http", connections=CHURN_EACH, first=OPEN_SOCKET, reads=True, renewed=True),
        Flood(name="peer-handshakes", door="http", connections=8, repeated=STREAM * 500, reads=True),
        Flood(name="peer-garbage", door="http", connections=8, repeated=MESSAGE * 100, reads=True),
    )
}


def client_hello() -> bytes:
    """What a TLS client says first. Its answer costs the server a signature."""
    told = ssl.MemoryBIO()
    context = ssl.create_default_context()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), told, server_hostname="127.0.0.1").do_handshake()
    return told.read()


WRONG = b"epx_" + b"A" * 43
HANDSHAKES = {
    flood.name: flood
    for flood in (
        Flood(name="tls-handshakes", door="http", connections=64, first=client_hello(), reads=True, renewed=True),
        Flood(name="tls-silence", door="http", connections=600),
        Flood(name="resp-tls-handshakes", door="resp", connections=64, first=client_hello(), reads=True, renewed=True),
    )
}
"""Of nodes with certificates."""

GUESSES = {
    flood.name: flood
    for flood in (
        Flood(
            name="http-guesses",
            door="http",
            connections=16,
            repeated=get(b"/v2/kv/" + HOT, b"authorization: Bearer " + WRONG) * 100,
            reads=True,
        ),
        Flood(name="resp-guesses", door="resp", connections=16, repeated=command(b"AUTH", WRONG) * 100, reads=True),
    )
}
"""Of nodes that ask for tokens."""


class Sender:
    """The connections of one flood."""

    def __init__(self, flood: Flood, port: int, source: str) -> None:
        self._flood = flood
        self._source = source
        self._port = port
        self._unsent: dict[socket.socket, memoryview] = {}
        self.counts = {"connections": 0, "sent": 0, "received": 0, "ended": 0}

    def open(self) -> None:
        while len(self._unsent) < self._flood.connections:
            self._connect()

    def _connect(self) -> None:
        made = socket.socket()
        made.setblocking(False)
        made.bind((self._source, 0))
        made.connect_ex(("127.0.0.1", self._port))
        self._unsent[made] = memoryview(self._flood.first)
        self.counts["connections"] += 1

    @property
    def has_begun(self) -> bool:
        """Something was sent, by a flood that sends anything."""
        return self.counts["sent"] > 0 or not (self._flood.first or self._flood.repeated)

    def run(self, over: Callable[[], bool]) -> None:
        poll, known = select.epoll(), dict[int, socket.socket]()
        dripped = monotonic()
        while not over():
            for made in self._unsent:
                if made.fileno() not in known:
                    known[made.fileno()] = made
                    poll.register(made, select.EPOLLIN | select.EPOLLOUT)
            if not self._flood.repeated and monotonic() > dripped + DRIP_S:
                dripped = monotonic()
                for made in list(self._unsent):
                    self._unsent[made] = memoryview(bytes(self._unsent[made]) + self._flood.drip)
                    poll.modify(made, select.EPOLLIN | select.EPOLLOUT)
            for number, event in poll.poll(0.05, 64):
                made = known[number]
                if not self._serve(made, event, poll):
                    del known[number], self._unsent[made]
                    made.close()
                    self.counts["ended"] += 1
            self.open()
        for made in self._unsent:
            made.close()

    def _serve(self, made: socket.socket, event: int, poll: select.epoll) -> bool:
        """False: the connection has ended."""
        flood = self._flood
        try:
            if event & (select.EPOLLERR | select.EPOLLHUP):
                return False
            if event & select.EPOLLIN and (flood.reads or not flood.repeated):
                received = len(made.recv(CHUNK_BYTES))
                self.counts["received"] += received
                if not received or (flood.renewed and not self._unsent[made]):
                    return False
            if event & select.EPOLLOUT:
                unsent = self._unsent[made] or memoryview(flood.repeated)
                sent = made.send(unsent[:CHUNK_BYTES]) if unsent else 0
                self._unsent[made] = unsent[sent:]
                self.counts["sent"] += sent
                if not self._unsent[made] and not flood.repeated:
                    poll.modify(made, select.EPOLLIN)
            elif flood.repeated and not flood.reads:
                poll.modify(made, select.EPOLLOUT)
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True


def main() -> None:
    name, http, resp, *more = sys.argv[1:]
    flood = (FLOODS | HANDSHAKES | GUESSES)[name]
    sender = Sender(flood, int(http if flood.door == "http" else resp), more[0] if more else SOURCE)
    sender.open()
    told = False

    def over() -> bool:
        """Asked at each turn. That it is ready is said when it has begun."""
        nonlocal told
        if not told and sender.has_begun:
            told = True
            print("ready", flush=True)
        return told and bool(select.select([sys.stdin], [], [], 0)[0])

    sender.run(over)
    print(json.dumps(sender.counts), flush=True)


if __name__ == "__main__":
    main()
