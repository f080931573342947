"""Blocking sockets, pooled for each node."""

import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Generic, TypeVar

from epoxy.client.calls import Call
from epoxy.client.http1 import AnswerReader, HttpResponse, NodeAddress, NotHttp, encode_request, parse_url
from epoxy.client.limits import CONNECT_TIMEOUT_S, IDLE_S, READ_BYTES, checked_connections
from epoxy.client.routing import NotSent, Outcome, Unanswered
from epoxy.client.token import NO_TOKEN, BearerToken
from epoxy.model.errors import InvalidRequest, Unavailable

T = TypeVar("T")
C = TypeVar("C")


class BlockingConnection:
    """One socket and the answers that come out of it. Used by one thread at a time."""

    def __init__(self, node: NodeAddress, timeout: float, tls: ssl.SSLContext | None) -> None:
        plain = socket.create_connection((node.host, node.port), timeout=timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = plain
        if tls is not None:
            try:
                self.socket = tls.wrap_socket(plain, server_hostname=node.host)
            except BaseException:
                plain.close()
                raise
        self._reader = AnswerReader()
        self.fit = True
        """May serve another request: nothing is on its way, and the node keeps it open."""
        self._idle_since = time.monotonic()

    def exchange(self, request: bytes, deadline: float) -> Outcome:
        self.fit = False
        unsent = self._send(request, deadline)
        if unsent is not None:
            return unsent
        try:
            return self._receive(deadline)
        except TimeoutError:
            return Unanswered("no answer in time", timed_out=True)
        except OSError as error:
            return Unanswered(reason_of(error))
        except NotHttp as error:
            return Unanswered(str(error))

    def _send(self, request: bytes, deadline: float) -> NotSent | None:
        """A node acts on whole requests only, so one that was cut off on its way out had no effect."""
        left = memoryview(request)
        try:
            while left:
                self.socket.settimeout(remaining(deadline))
                left = left[self.socket.send(left) :]
        except OSError as error:
            return NotSent(reason_of(error))
        return None

    def _receive(self, deadline: float) -> Outcome:
        while True:
            self.socket.settimeout(remaining(deadline))
            data = self.socket.recv(READ_BYTES)
            if not data:
                return Unanswered("the connection was closed")
            if (answer := self._reader.feed(data)) is not None:
                self.fit = self._reader.keep_alive
                self._idle_since = time.monotonic()
                return answer

    def stream(self, request: bytes, silence_s: float) -> Iterator[bytes]:
        """What comes after `request`, as it comes, until the connection ends or is silent for too long."""
        self.fit = False
        try:
            self.socket.settimeout(silence_s)
            self.socket.sendall(request)
            while data := self.socket.recv(READ_BYTES):
                yield data
        except OSError:
            return

    def still_good(self) -> bool:
        """Not idle for long, and nothing to read: an idle connection becomes readable only when it ends."""
        if time.monotonic() - self._idle_since > IDLE_S:
            return False
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        self.socket.close()


class Pool(Generic[C]):
    """At most `limit` connections to one node. The newest is used first, so that those not needed grow old."""

    def __init__(
        self,
        node: NodeAddress,
        connect_timeout: float,
        limit: int,
        tls: ssl.SSLContext | None,
        token: BearerToken = NO_TOKEN,
    ) -> None:
        """`tls`: without one of the caller's own, the system's authorities count."""
        self._node = node
        self._token = token
        self._connect_timeout = connect_timeout
        self._tls = (tls or ssl.create_default_context()) if node.secure else None
        self._limit = checked_connections(limit)
        self._idle: list[C] = []
        self._closed = False

    def trust(self, tls: ssl.SSLContext) -> None:
        """Use it for new connections: the authority, or our certificate, was renewed."""
        if self._tls is not None:
            self._tls = tls

    def _request(self, call: Call[T]) -> bytes:
        if self._closed:
            raise InvalidRequest("this client is closed")
        shown = f"Authorization: {call.authorization}\r\n" if call.authorization else self._token.header()
        shown += "".join(f"{name}: {value}\r\n" for name, value in call.headers)
        return encode_request(self._node, call.method, call.target, call.body, call.accept, call.content_type, shown)


class BlockingPool(Pool[BlockingConnection]):
    def __init__(
        self,
        node: NodeAddress,
        connect_timeout: float,
        limit: int,
        tls: ssl.SSLContext | None,
        token: BearerToken = NO_TOKEN,
    ) -> None:
        super().__init__(node, connect_timeout, limit, tls, token)
        self._free = threading.BoundedSemaphore(limit)
        self._lock = threading.Lock()

    def ask(self, call: Call[T], deadline: float) -> Outcome:
        request = self._request(call)
        if not self._free.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return NotSent(f"all {self._limit} connections were busy", unreachable=False)
        try:
            return self._exchange(request, call, deadline)
        finally:
            self._free.release()

    def _exchange(self, request: bytes, call: Call[T], deadline: float) -> Outcome:
        """An idle connection may have died. Then a new one is tried, if that cannot repeat a write."""
        kept = self._take()
        if kept is not None:
            outcome = self._use(kept, request, deadline)
            if not stale(outcome, writes=call.writes):
                return outcome
        try:
            fresh = self.connect(deadline)
        except OSError as error:
            return NotSent(reason_of(error))
        return self._use(fresh, request, deadline)

    def _use(self, connection: BlockingConnection, request: bytes, deadline: float) -> Outcome:
        try:
            return connection.exchange(request, deadline)
        finally:
            with self._lock:
                keep = connection.fit and not self._closed
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def connect(self, deadline: float) -> BlockingConnection:
        return BlockingConnection(self._node, min(self._connect_timeout, remaining(deadline)), self._tls)

    def _take(self) -> BlockingConnection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.still_good():
                return connection
            connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for connection in idle:
            connection.close()


def ask_once(url: str, call: Call[T], authorization: str, *, timeout: float, tls: ssl.SSLContext | None = None) -> T:
    """One request on a connection of its own, with this in its header: for requests that are signed one by one."""
    node, deadline = parse_url(url), time.monotonic() + timeout
    context = (tls or ssl.create_default_context()) if node.secure else None
    line = f"Authorization: {authorization}\r\n"
    request = encode_request(node, call.method, call.target, call.body, call.accept, call.content_type, line)
    try:
        connection = BlockingConnection(node, min(CONNECT_TIMEOUT_S, timeout), context)
    except OSError as error:
        raise Unavailable(f"{url}: {reason_of(error)}") from error
    with closing(connection):
        outcome = connection.exchange(request, deadline)
    if isinstance(outcome, HttpResponse):
        return call.read(outcome)
    raise Unavailable(f"{url}: {outcome.reason}")


def stale(outcome: Outcome, *, writes: bool) -> bool:
    return isinstance(outcome, NotSent) or (isinstance(outcome, Unanswered) and not writes and not outcome.timed_out)


def remaining(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def reason_of(error: OSError) -> str:
    """The system's own message, without its error number."""
    match error:
        case TimeoutError():
            return "no connection in time"
        case ssl.SSLCertVerificationError():
            return f"no TLS connection (certificate refused: {error.verify_message})"
        case ssl.SSLError():
            return f"no TLS connection ({error.reason or error})"
        case socket.gaierror():
            return "no such host"
        case ConnectionRefusedError():
            return "connection refused"
        case _:
            return (error.strerror or str(error) or type(error).__name__).lower()
