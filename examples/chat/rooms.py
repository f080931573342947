"""Chat rooms across regions: every room is one actor in the world, wherever people talk to it.

In one terminal `epoxy demo`, in another `python examples/chat/rooms.py`; or both in one:

    epoxy demo --exec "python examples/chat/rooms.py"

This starts a worker in every region and a small page for a browser. A room is made in the region where it is first
asked for, and found from all the others. What a room remembers is in its worker's memory: when the worker goes, the
room moves and begins anew. A real one would write to a store.

With `epoxy demo --auth` the page shows the application's token (EPOXY_TOKEN_FILE), and the workers theirs
(EPOXY_WORKER_TOKEN_FILE); --exec sets both.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from epoxy import Client, EpoxyError
from epoxy.client.actor_calls import Which
from epoxy.envoy import Actor, Worker

POOL, ROOM = "chat", "chat-room"
PAGE = Path(__file__).with_name("page.html")
KEPT = 100


def add_room(worker: Worker) -> None:
    """The whole chat room: it takes a line and gives back the last ones."""

    @worker.actor(ROOM)
    async def room(actor: Actor) -> None:
        lines: deque[str] = deque(maxlen=KEPT)
        async for request in actor:
            if request.body:
                lines.append(request.text)
            request.respond(json.dumps({"room": actor.key, "region": worker.datacenter, "lines": list(lines)}))


def regions(url: str) -> dict[str, str]:
    """Every region with the address of its node, as the first one knows them."""
    with Client(url) as client:
        status = client.status()
    return {status.datacenter: url} | {peer.datacenter: peer.url for peer in status.peers if peer.url}


class Page(BaseHTTPRequestHandler):
    """`/` is the page, `/regions` its choice of regions, `/say` passes a line to a room through one of them."""

    nodes: dict[str, Client]

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/":
            self.answer(200, PAGE.read_bytes(), "text/html; charset=utf-8")
        elif path == "/regions":
            self.answer(200, json.dumps(list(self.nodes)).encode())
        else:
            self.answer(404, b"{}")

    def do_POST(self) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        line = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            told = self.nodes[asked["region"]].actors.request(Which(name=ROOM, key=asked["room"]), line, pool=POOL)
            self.answer(200, told)
        except KeyError as missing:
            self.answer(400, json.dumps({"error": f"no {missing}"}).encode())
        except EpoxyError as error:
            self.answer(503, json.dumps({"error": str(error)}).encode())

    def answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet: people chat, they do not read logs."""


async def work(nodes: dict[str, str]) -> None:
    """A worker in every region, until Ctrl-C; a second one does not wait for the rooms to move."""
    token = Path(file) if (file := os.environ.get("EPOXY_WORKER_TOKEN_FILE")) else None
    workers = [
        Worker(url, pool=POOL, slots=1000, key=f"chat-{name}-{os.getpid()}", token=token) for name, url in nodes.items()
    ]
    for worker in workers:
        add_room(worker)

    def leave() -> None:
        for worker in workers:
            worker.drain()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, leave)
    await asyncio.gather(*(worker.serve() for worker in workers))


def main() -> None:
    parser = argparse.ArgumentParser(description="Chat rooms across the regions of a demo.")
    parser.add_argument("--url", default=os.environ.get("EPOXY_URL", "http://127.0.0.1:7800"), help="of any region")
    parser.add_argument("--port", type=int, default=8090, help="of the page; 0 takes a free one")
    given = parser.parse_args()
    try:
        nodes = regions(given.url)
        server = ThreadingHTTPServer(("127.0.0.1", given.port), Page)
    except EpoxyError as error:
        sys.exit(f"{error}. `epoxy demo` starts a cluster")
    except OSError as error:
        sys.exit(f"port {given.port}: {error.strerror}. --port chooses another")
    Page.nodes = {name: Client(url, timeout=40.0) for name, url in nodes.items()}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"Chat rooms in {', '.join(nodes)}: http://127.0.0.1:{server.server_port}", flush=True)
    ask = f"{next(iter(nodes.values()))}/v2/actors/request?name={ROOM}&key=lobby&pool={POOL}&create=true"
    print(f"Or without a browser:  curl -d 'ada: hello' '{ask}'", flush=True)
    try:
        asyncio.run(work(nodes))
    except EpoxyError as error:
        sys.exit(f"the workers: {error}")
    server.shutdown()


if __name__ == "__main__":
    main()
