"""A node that speaks the HTTP contract out of a dict, and misbehaves on demand."""

import ssl
import threading
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, quote_from_bytes, unquote_to_bytes, urlsplit

import msgspec

from epoxy.model.integers import integer_of

STATUS = {
    "id": 1,
    "datacenter": "us-east-1",
    "pid": 4711,
    "epoch": 1,
    "ready": True,
    "available": True,
    "tolerated_failures": 1,
    "fast_path_share": 0.975,
    "floor_ms": 70.0,
    "quorum_policy": "optimal",
    "replicas": 3,
    "slow_quorum": 2,
    "fast_quorum": 2,
    "writes_in_flight": 0,
    "uptime_s": 3725.0,
    "peers": [
        {"id": 2, "datacenter": "eu-west-1", "url": "http://b:7800", "rtt_ms": 70.1, "reachable": True},
        {"id": 3, "datacenter": "ap-northeast-1", "url": "http://c:7800", "rtt_ms": 152.0, "reachable": True},
    ],
}


class Held(msgspec.Struct):
    """`ttl`: the time to live that it was given, in milliseconds. It does not end by itself."""

    value: bytes | None
    version: int
    mutable: bool
    ttl: int | None = None


Misdeed = Callable[["Handler"], None]
"""What a fake does instead of answering. It may use the handler's own tools; the connection is closed afterwards."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "FakeServer"

    def handle(self) -> None:
        with suppress(OSError):  # the client has gone, or does not like our certificate
            super().handle()

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""

    def serve(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fake = self.server.fake
        with fake.lock:
            fake.requests.append(f"{self.command} {self.path}")
            fake.authorizations.append(self.headers.get("Authorization"))
            fake.peers.append(self.client_address[1])
            misdeed = fake.misdeeds.popleft() if fake.misdeeds else None
        if misdeed is not None:
            self.close_connection = True
            misdeed(self)
            return
        if fake.token is not None and self.headers.get("Authorization") != f"Bearer {fake.token}":
            self.error(401, "unauthenticated")
            return
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        with fake.lock:
            fake.answer(self, parts.path, query)

    do_GET = do_PUT = do_PATCH = do_POST = do_DELETE = serve  # noqa: N815 (http.server's names)

    def reply(self, status: int, body: bytes = b"", kind: str = "application/octet-stream", **headers: object) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value).lower())
        self.end_headers()
        self.wfile.write(body)

    def error(self, status: int, code: str, *, definite: bool = True, **headers: object) -> None:
        problem = {"error": {"code": code, "message": f"about {code}", "definite": definite}}
        self.reply(status, msgspec.json.encode(problem), "application/json", Epoxy_Error=code, **headers)


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True
    fake: "FakeNode"


class FakeNode:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.lock = threading.RLock()
        self.kv: dict[bytes, Held] = {}
        self.requests: list[str] = []
        self.authorizations: list[str | None] = []
        self.token: str | None = None
        """The only one that is right; None: none is asked for."""
        self.peers: list[int] = []
        self.misdeeds: deque[Misdeed] = deque()
        self.status: dict[str, Any] = dict(STATUS)
        self.inspected: object = []
        self.pages: dict[str, object] = {
            "/v2/actors/homeless": {"count": 0, "actors": []},
            "/v2/pools": {"datacenter": "us-east-1", "pools": [], "datacenters": []},
        }
        """What is told of actors, by path."""
        self.scrubs: list[tuple[int, object]] = []
        """Statuses and bodies, answer after answer; the last one stays."""
        self.members: list[object] = []
        """What is shown of the members, look after look; the last one stays."""
        self.orders: list[Any] = []
        self.verdict: tuple[int, object] = (202, {"wanted": [1, 2, 3], "epoch": 2, "queued": False})
        self.probe: tuple[int, object] = (200, {})
        """What it hears of a node that is to be added."""
        self.sessions: dict[str, int] = {}
        """Times to live, by id."""
        self.events: list[bytes] = []
        self.changes_later: list[tuple[bytes, Held]] = []
        self._server = FakeServer(("127.0.0.1", 0), Handler)
        self._server.fake = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
            self.url = f"https://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: Handler, path: str, query: dict[str, str]) -> None:
        if path.startswith("/v2/kv/"):
            key = unquote_to_bytes(path.removeprefix("/v2/kv/"))
            getattr(self, request.command.lower())(request, key, query)
        elif path == "/v2/kv":
            self.page(request, query)
        elif path == "/v2/changes":
            self.changes(request, query)
        elif path.startswith("/v2/sessions"):
            self.session(request, path.removeprefix("/v2/sessions").removeprefix("/"), query)
        elif path in ("/v2/status", *self.pages):
            request.reply(200, msgspec.json.encode(self.pages.get(path, self.status)), "application/json")
        elif path == "/v2/scrub":
            status, shown = self.scrubs.pop(0) if len(self.scrubs) > 1 else self.scrubs[0]
            request.reply(status, msgspec.json.encode(shown), "application/json")
        elif path == "/v2/members" and request.command == "POST":
            self.orders.append(msgspec.json.decode(request.body))
            request.reply(self.verdict[0], msgspec.json.encode(self.verdict[1]), "application/json")
        elif path == "/v2/members/probe":
            status, body = self.probe
            request.reply(status, msgspec.json.encode(body), "application/json")
        elif path == "/v2/members":
            shown = self.members.pop(0) if len(self.members) > 1 else self.members[0]
            request.reply(200, msgspec.json.encode(shown), "application/json")
        elif path.startswith("/v2/inspect/"):
            request.reply(200, msgspec.json.encode(self.inspected), "application/json")
        else:
            request.error(404, "no_such_address")

    def get(self, request: Handler, key: bytes, query: dict[str, str]) -> None:
        held = self.kv.get(key)
        source = "quorum" if query["read"] == "linearizable" else "local"
        if held is None or held.value is None:
            request.error(404, "not_found", Epoxy_Source=source, **about(held))
        else:
            request.reply(200, held.value, Epoxy_Source=source, **about(held))

    def put(self, request: Handler, key: bytes, query: dict[str, str]) -> None:
        held = self.kv.get(key)
        if query["mode"] == "reserve" and held is not None and held.value is not None:
            same = held.value == request.body
            more: dict[str, Any] = {} if same else {"Epoxy_Error": "taken"}
            body = b"" if same else held.value
            request.reply(200 if same else 409, body, Epoxy_Mine=False, Epoxy_Path="local", **more, **about(held))
            return
        if query.get("session", "") not in ("", *self.sessions):
            request.error(409, "no_session")
        elif query.get("if_absent") == "true" and held is not None and held.value is not None:
            refuse(request, held, "exists")
        else:
            self.write(request, key, query, request.body, mutable=query["mode"] == "put")

    def patch(self, request: Handler, key: bytes, query: dict[str, str]) -> None:
        held = self.kv.get(key)
        if "add" not in query:
            if held is None or held.value is None:
                request.error(404, "not_found", **about(held))
            else:
                self.write(request, key, query, held.value, mutable=True)
            return
        number = integer_of(held.value if held is not None else None)
        value = b"%d" % (number + int(query["add"])) if number is not None else b""
        if held is not None and held.mutable and integer_of(value) is None:
            refuse(request, held, "not_an_integer")
        else:
            self.write(request, key, query, value, mutable=True, body=value)

    def delete(self, request: Handler, key: bytes, query: dict[str, str]) -> None:
        held = self.kv.get(key)
        if "if_version" not in query and (held is None or held.value is None):
            request.error(404, "not_found", Epoxy_Path="fast", Epoxy_Mine=False, **about(held))
            return
        self.write(request, key, query, None, mutable=True)

    def write(
        self,
        request: Handler,
        key: bytes,
        query: dict[str, str],
        value: bytes | None,
        *,
        mutable: bool,
        body: bytes = b"",
    ) -> None:
        held = self.kv.get(key)
        version = held.version if held is not None else 0
        if held is not None and not held.mutable:
            refuse(request, held, "immutable")
        elif int(query.get("if_version", version)) != version:
            refuse(request, held, "version_mismatch")
        else:
            fresh = held is None or held.value is None
            self.kv[key] = Held(value, version + 1, mutable, int(query.get("ttl", 0)) or None)
            made = 201 if fresh and value is not None else 200
            more: dict[str, Any] = about(self.kv[key])
            if query.get("returning") == "true" and held is not None and held.value is not None:
                body = held.value
                more["Epoxy_Previous_Version"] = held.version
            request.reply(made, body, Epoxy_Mine=True, Epoxy_Path="fast", **more)

    def session(self, request: Handler, name: str, query: dict[str, str]) -> None:
        if request.command == "POST":
            name = f"{len(self.sessions):032x}"
            self.sessions[name] = int(query["ttl"])
        if name not in self.sessions:
            request.error(404, "no_session")
            return
        ttl = self.sessions[name] if request.command != "DELETE" else self.sessions.pop(name)
        told = {"session": name, "ttl": ttl, "remaining": ttl}
        request.reply(201 if request.command == "POST" else 200, msgspec.json.encode(told), "application/json")

    def page(self, request: Handler, query: dict[str, str]) -> None:
        asked = parse_qs(urlsplit(request.path).query, keep_blank_values=True, encoding="latin-1")
        prefix, after = (asked.get(name, [""])[0].encode("latin-1") for name in ("prefix", "after"))
        keys = sorted(key for key in self.kv if key.startswith(prefix) and key > after)
        limit = int(query.get("limit", 100))
        following = quote_from_bytes(keys[limit - 1], safe="/") if len(keys) > limit else None
        document = {"keys": [record(key, self.kv[key]) for key in keys[:limit]], "next": following}
        request.reply(200, msgspec.json.encode(document), "application/json")

    def changes(self, request: Handler, query: dict[str, str]) -> None:
        """Those after the cursor, and then the connection ends: a client has to come back."""
        begin = int(query.get("after", 0))
        body = b"".join(self.events[begin:])
        request.close_connection = True
        request.reply(200, body, "text/event-stream")
        while self.changes_later:
            self.commit_event(*self.changes_later.pop(0))

    def commit_event(self, key: bytes, held: Held) -> None:
        data = msgspec.json.encode(record(key, held))
        self.events.append(b": keep alive\n\nid: %d\nevent: change\ndata: %s\n\n" % (len(self.events) + 1, data))


def refuse(request: Handler, held: Held | None, code: str) -> None:
    body = (held.value if held is not None else None) or b""
    request.reply(409, body, Epoxy_Error=code, Epoxy_Path="local", Epoxy_Mine=False, **about(held))


def about(held: Held | None) -> dict[str, Any]:
    if held is None:
        return {}
    told: dict[str, Any] = {"Epoxy_Version": held.version, "Epoxy_Mutable": held.mutable}
    return told if held.ttl is None or held.value is None else told | {"Epoxy_Ttl": held.ttl}


def record(key: bytes, held: Held) -> dict[str, object]:
    return {
        "key": quote_from_bytes(key, safe="/"),
        "value": None,
        "value_base64": b64encode(held.value).decode() if held.value is not None else None,
        "version": held.version,
        "mutable": held.mutable,
        "deleted": held.value is None,
    }


def hang_up(_: Handler) -> None:
    """The request was read, and no answer comes."""


def stay_silent(request: Handler) -> None:
    """Until the client gives up."""
    request.connection.settimeout(None)
    request.rfile.read(1)


def web_page(status: int) -> Misdeed:
    return lambda request: request.reply(status, b"<html>hello</html>", "text/html")


def problem(status: int, code: str, *, definite: bool) -> Misdeed:
    return lambda request: request.error(status, code, definite=definite)


def garbage(request: Handler) -> None:
    request.wfile.write(b"-ERR unknown command 'GET'\r\n")
