"""Chat rooms in three regions: a worker in each, and a page for browsers. In one terminal

    epoxy demo

and in another `python examples/rooms/rooms.py`; or both in one:

    epoxy demo --exec "python examples/rooms/rooms.py"

Browsers talk to the nodes, not to this program: it serves three files, and keeps the workers running. With `epoxy demo
--auth` the page shows the application's token (EPOXY_TOKEN_FILE), and the workers theirs (EPOXY_WORKER_TOKEN_FILE).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from epoxy import Client, EpoxyError

FOLDER = Path(__file__).parent
POOL, ACTOR = "rooms", "room"
LOOK_S, GRACE_S, PAUSE_S = 0.2, 20.0, 1.0

POLICY = "default-src 'self'; img-src data:; connect-src 'self' {nodes}; base-uri 'none'; form-action 'none'"
"""The page runs its own script, and reaches the nodes of the cluster and no other address."""


def regions(url: str) -> dict[str, str]:
    """Every region with the address of its node, as the first one knows them."""
    with Client(url) as client:
        status = client.status()
    return {status.datacenter: url} | {peer.datacenter: peer.url for peer in status.peers if peer.url}


class Page(SimpleHTTPRequestHandler):
    """The files of the page, and config.json: where the nodes are, and the token that a page may show them."""

    def __init__(self, *args: object, config: bytes, policy: str, **kwargs: object) -> None:
        self.config, self.policy = config, policy
        super().__init__(*args, directory=str(FOLDER / "page"), **kwargs)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/config.json":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(self.config)))
        self.end_headers()
        self.wfile.write(self.config)

    def end_headers(self) -> None:
        self.send_header("content-security-policy", self.policy)
        self.send_header("cache-control", "no-store")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet: the terminal is for the rooms."""


def page_server(port: int, nodes: dict[str, str], token: str) -> ThreadingHTTPServer:
    listed = [{"name": name, "url": url} for name, url in nodes.items()]
    config = {"regions": listed, "pool": POOL, "actor": ACTOR, "token": token}
    sockets = " ".join(url.replace("http", "ws", 1) for url in nodes.values())
    page = partial(Page, config=json.dumps(config).encode(), policy=POLICY.format(nodes=sockets))
    return ThreadingHTTPServer(("127.0.0.1", port), page)


class Workers:
    """One process for each region, started again when it ends."""

    def __init__(self, nodes: dict[str, str]) -> None:
        self._nodes = nodes
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._due = dict.fromkeys(nodes, 0.0)

    def look(self) -> None:
        for name, url in self._nodes.items():
            process = self._processes.get(name)
            if (process is None or process.poll() is not None) and time.monotonic() >= self._due[name]:
                self._processes[name] = started = start_worker(url)
                self._due[name] = time.monotonic() + PAUSE_S
                print(f"worker in {name}: pid {started.pid}", flush=True)

    def stop(self) -> None:
        """With SIGTERM: the rooms move to other workers first, if there are any."""
        running = [process for process in self._processes.values() if process.poll() is None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + GRACE_S
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def start_worker(url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "epoxy", "worker", "run", "room", "--url", url]
    return subprocess.Popen(command, cwd=FOLDER, env=worker_environment())


def worker_environment() -> dict[str, str]:
    """A worker shows its own token, where nodes ask for one."""
    file = os.environ.get("EPOXY_WORKER_TOKEN_FILE")
    return {**os.environ, **({"EPOXY_TOKEN": "", "EPOXY_TOKEN_FILE": file} if file else {})}


def main() -> None:
    parser = argparse.ArgumentParser(description="Chat rooms across the regions of a demo.")
    parser.add_argument("--url", default=os.environ.get("EPOXY_URL", "http://127.0.0.1:7800"), help="of any region")
    port = int(os.environ.get("EPOXY_PAGE_PORT", "7890"))
    parser.add_argument("--port", type=int, default=port, help="of the page; nodes must allow its origin [%(default)s]")
    given = parser.parse_args()
    file = os.environ.get("EPOXY_TOKEN_FILE")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        nodes = regions(given.url)
        server = page_server(given.port, nodes, Path(file).read_text().strip() if file else "")
    except EpoxyError as error:
        sys.exit(f"{error}. `epoxy demo` starts a cluster")
    except OSError as error:
        sys.exit(f"port {given.port}: {error.strerror}. --port chooses another")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"Rooms in {', '.join(nodes)}: http://127.0.0.1:{server.server_port}/", flush=True)
    workers = Workers(nodes)
    try:
        while not ended.wait(LOOK_S):
            workers.look()
    finally:
        workers.stop()
        server.shutdown()


if __name__ == "__main__":
    main()
