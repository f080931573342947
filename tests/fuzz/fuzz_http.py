"""HTTP clients, mutated: answers well-formed, in order, the same however the bytes arrive; nothing that only a peer may
do; and all that a connection held is given back when it ends. A protected node, to which the client never shows a right
token, does nothing for it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from epoxy.api.http.router import Api
from epoxy.api.http.routes import signed_route
from epoxy.api.metrics import Metrics
from epoxy.codec.wire import encode_peer_request
from epoxy.model.access import Access, AccessRole, AccessTable
from epoxy.model.frames import PeerRequest
from epoxy.model.records import ChangelogEntry
from epoxy.protocol.access.grants import PrincipalIndex
from epoxy.protocol.access.principal import Principal
from epoxy.protocol.access.tokens import digest_of
from epoxy.transport.http.connections import Connections
from epoxy.transport.http.response import CONTINUE
from epoxy.transport.http.server import HttpServer
from epoxy.transport.limits import MESSAGE_PATH, STREAM_PATH, HttpLimits
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.transport import PeerEndpoint
from tests.api.http.http_bench import FakeNode, stamp
from tests.api.http.open_access import OpenAccess
from tests.api.resp.resp_world import granted
from tests.fuzz.fuzz_resp import PatientGuesses
from tests.fuzz.hand_loop import HandLoop, RecordingTransport, hand_loop
from tests.fuzz.harness import Finding, FuzzTarget, compare
from tests.fuzz.registers import HELD, Registers
from tests.transport.peers.pair import PEER, SECRET, Replica, read

KEYS = [b"k", b"kept", b"gone", b"long", b"new", b"%2Fa%00", b"a/b", b"k" * 40, b"%ff", b"\xc3\xa4", b""]
READS = [
    b"/v2/kv/K",
    b"/v2/kv/K?read=linearizable",
    b"/v2/kv/K?read=skip_cache",
    b"/v2/kv?prefix=k&limit=2",
    b"/v2/kv?after=k",
    b"/v2/changes?follow=false",
    b"/v2/changes?after=now",
    b"/v2/status",
    b"/v2/members",
    b"/healthz",
    b"/readyz?for=transactions",
    b"/v2/inspect?key=k",
    b"/nowhere",
    STREAM_PATH,
]
HEADERS = [b"accept: application/json", b"accept: text/event-stream", b"connection: close", b"expect: 100-continue"]
HEADERS += [
    b"connection: keep-alive",
    b"host: x",
    b"origin: http://evil",
    b"x-long: " + b"y" * 200,
    b"last-event-id: 0",
]
HEADERS += [
    b"authorization: Bearer epx_" + b"A" * 43,
    b"authorization: epoxy-v4 1,2,3,4,5",
    b"content-type: text/plain",
]
TXNS = [
    b'{"then":[{"op":"put","key":"a","value":"1"}],"reads":["b"]}',
    b'{"compares":[{"key":"a","value":"1"}],"then":[{"op":"add","key":"a","amount":-5}],"otherwise":[]}',
    b'{"then":[]}',
    b'{"members":[{"id":4}]}',
    b"[[[[[[[[",
    b'{"then":"\xff"}',
]
MESSAGES = encode_peer_request(PeerRequest(sender=1, recipient=PEER, requests=(read(1),)))
TOKENS = [
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b":",
    b" ",
    b"\x00",
    b"\xff",
    b"%",
    b"?",
    b"#",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"GET ",
]
TOKENS += [
    b"transfer-encoding: chunked\r\n",
    b"content-length: 5\r\n",
    b"content-length: 0\r\n",
    b"upgrade: websocket\r\n",
]
TOKENS += [
    b"connection: upgrade\r\nupgrade: epoxy-frames/5\r\n",
    b"expect: 100-continue\r\n",
    b"0\r\n\r\n",
    b"5\r\nhello\r\n",
]
TOKENS += [b'"', b"{", b"}", b"[", b"http://h/", b"//", b"/../", b"&", b"="]

LIMITS = HttpLimits(pipelined=8)
"""Few, so that mutations reach it."""
SHORT_TURNS = HttpLimits(pipelined=8, turn_s=0.0)
"""Each request waits for a turn of its own, as when the machine is busy."""

MOST_UNREAD = 4 << 20
WAIT_S = 1000.0
"""Beyond every time limit of a connection."""


class HttpRegisters(Registers, FakeNode):
    """As the API needs it."""

    def __init__(self) -> None:
        FakeNode.__init__(self)
        Registers.__init__(self)
        self.log = [
            (stamp(at + 1), ChangelogEntry(key=key, committed=value)) for at, (key, value) in enumerate(HELD.items())
        ]


class GuardedAccess(OpenAccess):
    """With a token that no mutation guesses."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False
        grant = granted("ci", AccessRole.WRITER)
        self._index = PrincipalIndex(AccessTable(grants=(grant,)), 0)

    def of_token(self, token: bytes) -> Principal | None:
        return self._index.of_digest(digest_of(token))


class GuardedRegisters(HttpRegisters):
    def __init__(self) -> None:
        super().__init__()
        self.access, self.guesses = GuardedAccess(), PatientGuesses()


class HttpTarget:
    name = "http"
    tokens: Sequence[bytes] = TOKENS

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self.node, self.guarded = HttpRegisters(), GuardedRegisters()
        self.replica = Replica()
        peers = PeerEndpoint(self.replica.handle, Authenticator(Verifier(PEER, SECRET)))
        of_peers = [("POST", MESSAGE_PATH), ("GET", STREAM_PATH)]
        more = [signed_route(method, path, peers, Access.PEER) for method, path in of_peers]
        self.api, self.guarded_api = (Api(node, Metrics(), more=more) for node in (self.node, self.guarded))
        self.connections = Connections(100)

    def conversation(self, dice: Random) -> list[bytes]:
        kind = dice.random()
        if kind < 0.5:
            return [self._read(dice) for _ in range(dice.choice((1, 1, 2, 5)))]
        if kind < 0.6:
            return [self._read(dice)] * dice.choice((2, 3, 30))
        return [self._write(dice) for _ in range(dice.choice((1, 1, 2)))]

    def _headers(self, dice: Random) -> bytes:
        chosen = dice.choices(HEADERS, k=dice.choice((0, 0, 1, 1, 2)))
        return b"".join(line + b"\r\n" for line in (b"host: localhost", *chosen))

    def _read(self, dice: Random) -> bytes:
        path = dice.choice(READS).replace(b"K", dice.choice(KEYS))
        method = b"HEAD" if dice.random() < 0.05 else b"GET"
        return b"%b %b HTTP/1.1\r\n%b\r\n" % (method, path, self._headers(dice))

    def _write(self, dice: Random) -> bytes:
        kind = dice.random()
        body = dice.choice((b"", b"v", b"hello", b"w" * 100, b"\xff\x00"))
        if kind < 0.5:
            start = b"PUT /v2/kv/%b%b" % (
                dice.choice(KEYS),
                dice.choice((b"", b"?mode=put", b"?mode=put&if_version=1")),
            )
        elif kind < 0.65:
            start, body = b"DELETE /v2/kv/%b" % dice.choice(KEYS), b""
        elif kind < 0.7:
            start, body = b"POST " + MESSAGE_PATH, MESSAGES
        else:
            start, body = b"POST " + dice.choice((b"/v2/txn", b"/v2/txn", b"/v2/members")), dice.choice(TXNS)
        head = b"%b HTTP/1.1\r\n%b" % (start, self._headers(dice))
        if start.startswith(b"POST"):
            head += b"content-type: application/json\r\n"
        if dice.random() < 0.25:
            middle = len(body) // 2
            parts = [part for part in (body[:middle], body[middle:]) if part]
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
            return head + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)

    def judge(self, pieces: Sequence[bytes], dice: Random) -> str:
        data = b"".join(pieces)
        if dice.random() < 0.3:
            return f"guarded {self._verdict(self._run_guarded(pieces, dice), data)}"
        whole = self._run([data], dice)
        writes = any(method in data for method in (b"PUT", b"DELETE", b"POST"))
        cut = self._run(
            pieces, dice, late=not writes and dice.random() < 0.5, slow=dice.random() < 0.2, limits=SHORT_TURNS
        )
        compare(whole.replace(CONTINUE, b""), cut.replace(CONTINUE, b""))  # Sent if the body was not there yet.
        return self._verdict(cut, data)

    def _run_guarded(self, pieces: Sequence[bytes], dice: Random) -> bytes:
        node = self.guarded
        written = self._run(pieces, dice, guarded=True)
        if node.touched or node.held != HELD:
            raise Finding("a client without a token reached the node")
        return written

    def _run(
        self,
        pieces: Sequence[bytes],
        dice: Random,
        *,
        guarded: bool = False,
        late: bool = False,
        slow: bool = False,
        limits: HttpLimits = LIMITS,
    ) -> bytes:
        node, loop, connections = self.guarded if guarded else self.node, self._loop, self.connections
        api = self.guarded_api if guarded else self.api
        node.renew()
        node.is_late = late
        connections.response_cache.clear()
        wire = RecordingTransport(loop, HttpServer(api, limits, connections), slow=slow)
        wire.open()
        for piece in pieces:
            wire.receive(piece)
            if dice.random() < 0.3:
                node.release(dice)
        wire.drain()
        while node.late:
            node.release(dice)
            wire.drain()
        written = bytes(wire.written)
        if not node.listeners and dice.random() < 0.01:  # A stream of changes may last.
            loop.wait(WAIT_S)
            if not wire.lost:
                raise Finding("a connection outlives every time limit")
        wire.hang_up()
        self._check(wire)
        return written

    def _check(self, wire: RecordingTransport) -> None:
        connections = self.connections
        if self._loop.unheard:
            raise Finding(f"reached the loop's exception handler: {self._loop.unheard.pop()}")
        if len(connections) or connections.client_budget.bytes or connections.peer_budget.bytes:
            raise Finding("a connection that has ended is still counted, or its bytes are")
        if self.node.listeners or self.guarded.listeners:
            raise Finding("a stream that has ended still listens")
        if self.replica.asked:
            raise Finding("an unsigned message reached the replica")
        if wire.most_unread > MOST_UNREAD:
            raise Finding(f"{wire.most_unread} bytes for a client that does not read")

    def _verdict(self, written: bytes, data: bytes) -> str:
        statuses = [status for status in answers(written, b"HEAD" in data) if status >= 200]
        if 500 in statuses:
            raise Finding(f"an internal error: {written!r}")
        if len(statuses) > 1 + data.count(b"\n"):
            raise Finding(f"{len(statuses)} answers to fewer requests")
        if not statuses:
            return "silence"
        return "answered" if max(statuses) < 400 else f"refused {max(statuses)}"

    def probe(self) -> None:
        put = b"PUT /v2/kv/probe HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\n1"
        get = b"GET /v2/kv/probe HTTP/1.1\r\nhost: localhost\r\n\r\n"
        if answers(self._run([put + get], Random(0)), False) != [201, 200]:
            raise Finding("a valid request is not answered")
        if answers(self._run_guarded([put + get], Random(0)), False) != [401, 401]:
            raise Finding("a client without a token is not refused")


def answers(written: bytes, heads: bool) -> list[int]:
    """Statuses of the answers, strictly read. `heads`: some may lack the body whose length they tell."""
    found: list[int] = []
    while written:
        head, end, written = written.partition(b"\r\n\r\n")
        line, *lines = head.split(b"\r\n")
        if not end or not line.startswith(b"HTTP/1.1 ") or not line[9:12].isdigit():
            raise Finding(f"no answer in HTTP: {head!r}")
        found.append(int(line[9:12]))
        if found[-1] == 101:
            break
        fields = dict(field.lower().split(b": ", 1) for field in lines)
        if b"content-length" in fields:
            if heads and (not written or written.startswith(b"HTTP/1.1 ")):
                continue
            size = int(fields[b"content-length"])
            if len(written) < size:
                raise Finding(f"a body of {size} bytes has {len(written)}")
            written = written[size:]
        elif fields.get(b"transfer-encoding") == b"chunked" and not (heads and not written):
            written = after_chunks(written)
    return found


def after_chunks(written: bytes) -> bytes:
    while written:
        size, _, written = written.partition(b"\r\n")
        count = int(size, 16)
        if written[count : count + 2] != b"\r\n":
            raise Finding("a chunk does not end where it says")
        written = written[count + 2 :]
        if not count:
            break
    return written


@contextmanager
def http_target() -> Iterator[FuzzTarget]:
    with hand_loop() as loop:
        yield HttpTarget(loop)
