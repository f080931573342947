"""Taking a key that ends by itself, over Redis' protocol and as etcd has it: with a lease, renewed by keepalives."""

import base64
import http.client
import socket
from typing import Protocol

import msgspec
from msgspec import Struct

from benchmarks.suite.wires.resp import command
from epoxy.agent.connection import ReplyReader
from epoxy.agent.redis import Reply, ServerError

PATIENCE_S = 30.0
"""For one answer."""

VALUE = b"held"


class Door(Protocol):
    def take(self, key: str, ttl_s: float) -> bool:
        """False: it is another's."""

    def renew(self) -> None:
        """What was taken; RuntimeError: it is not there any more."""

    def give_back(self) -> None: ...

    def close(self) -> None: ...


class Line:
    """One connection to a server that speaks Redis' protocol."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = ReplyReader()

    def ask(self, *words: bytes) -> Reply:
        return self.ask_all([command(*words)])[0]

    def ask_all(self, commands: list[bytes]) -> list[Reply]:
        """In one pipeline."""
        self._socket.sendall(b"".join(commands))
        replies: list[Reply] = []
        while len(replies) < len(commands):
            data = self._socket.recv(65_536)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            replies += self._reader.feed(data)
        return replies

    def close(self) -> None:
        self._socket.close()


class RespDoor:
    def __init__(self, port: int) -> None:
        self._line = Line(port)
        self._key, self._ttl_ms = b"", b""

    def take(self, key: str, ttl_s: float) -> bool:
        """An error is definite unless it says otherwise: the next try may do."""
        self._key, self._ttl_ms = key.encode(), b"%d" % (ttl_s * 1000)
        reply = self._line.ask(b"SET", self._key, VALUE, b"NX", b"PX", self._ttl_ms)
        if isinstance(reply, ServerError) and str(reply).startswith("INDEFINITE"):
            raise RuntimeError(f"SET {key} NX: {reply}")
        return reply == b"OK"

    def renew(self) -> None:
        reply = self._line.ask(b"PEXPIRE", self._key, self._ttl_ms)
        if reply != 1:
            raise RuntimeError(f"PEXPIRE {self._key.decode()}: {reply!r}")

    def give_back(self) -> None:
        self._line.ask(b"DEL", self._key)

    def close(self) -> None:
        self._line.close()


class Lease(Struct):
    """Numbers are strings in etcd's JSON; one that is 0 is missing."""

    ID: str = "0"
    TTL: str = "0"


class KeptAlive(Struct):
    result: Lease


class Txn(Struct):
    succeeded: bool = False


class EtcdDoor:
    """Over etcd's own gateway to JSON."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        self._lease: Lease | None = None

    def take(self, key: str, ttl_s: float) -> bool:
        if self._lease is None:
            self._lease = msgspec.json.decode(self._ask("/v3/lease/grant", {"TTL": str(round(ttl_s))}), type=Lease)
            if float(self._lease.TTL) != ttl_s:
                raise RuntimeError(f"etcd gave a lease of {self._lease.TTL} s for {ttl_s:g} s")
        return msgspec.json.decode(self._ask("/v3/kv/txn", creating(key, self._lease.ID)), type=Txn).succeeded

    def renew(self) -> None:
        assert self._lease is not None, "taken"
        told = msgspec.json.decode(self._ask("/v3/lease/keepalive", {"ID": self._lease.ID}), type=KeptAlive)
        if told.result.TTL != self._lease.TTL:
            raise RuntimeError(f"etcd renewed a lease to {told.result.TTL} s, not {self._lease.TTL} s")

    def give_back(self) -> None:
        """A key ends with its lease."""
        if self._lease is not None:
            self._ask("/v3/lease/revoke", {"ID": self._lease.ID})
            self._lease = None

    def close(self) -> None:
        self._connection.close()

    def _ask(self, path: str, body: object) -> bytes:
        self._connection.request("POST", path, msgspec.json.encode(body))
        answer = self._connection.getresponse()
        told = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"etcd answered {answer.status} to {path}: {told!r}")
        return told


def creating(key: str, lease: str) -> dict[str, object]:
    """Put if absent, with a lease."""
    named, value = (base64.b64encode(data).decode() for data in (key.encode(), VALUE))
    return {
        "compare": [{"key": named, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}],
        "success": [{"request_put": {"key": named, "value": value, "lease": lease}}],
    }


DOORS: dict[str, type[RespDoor] | type[EtcdDoor]] = {"resp": RespDoor, "etcd": EtcdDoor}
