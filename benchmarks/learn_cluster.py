"""Replicas are added to those that hold many keys: real processes, from the order to the last epoch.

    python -m benchmarks.learn_cluster [--keys 1000000] [--old 1] [--new 1] [--writers 0] [--txns] [--python P]
                                       [--folder DIR]

With `--writers`, so many clients reserve names at the first node all the while, and what they get done before, during
and after the copy is told. With `--txns` the keys belong to transactions, and each of these clients asks for one after
the other instead, which changes two of the keys; the longest time without an answer is told, too.
"""

import argparse
import http.client
import itertools
import json
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.plausible import all_answered, took_time
from benchmarks.preload import key_of, preload
from epoxy import Put
from epoxy.client import Client
from epoxy.model.errors import EpoxyError

LOOK_S = 0.01
START_S, PATIENCE_S = 60.0, 600.0


def free_port() -> int:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])


class Node:
    def __init__(self, folder: Path, me: int, founders: list[int], port: int, *, python: str) -> None:
        self.id, self.port = me, port
        self.url = f"http://127.0.0.1:{port}"
        members = [
            f'{{id = {i}, datacenter = "dc-{i}", url = "http://127.0.0.1:{founder}"}}'
            for i, founder in enumerate(founders, start=1)
        ]
        config = folder / f"{me}.toml"
        config.write_text(
            f'[node]\nid = {me}\ndatacenter = "dc-{me}"\ndata_dir = "{folder / f"data-{me}"}"\n'
            f'http = "127.0.0.1:{port}"\n[cluster]\njoin = {"true" if me > len(founders) else "false"}\n'
            f'secret_file = "{folder / "secret"}"\n'
            f"members = [{', '.join(members)}]\n"
        )
        with (folder / f"{me}.log").open("wb") as log:
            command = [python, "-m", "epoxy", "serve", "--config", str(config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def ask(self, method: str, target: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            content = json.dumps(body) if body is not None else None
            connection.request(method, target, content, {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def answers(self) -> bool:
        try:
            return bool(self.ask("GET", "/v2/status"))
        except OSError:
            return False

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def most_memory_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


class Writers:
    """Closed loops; what they got done in each tenth of a second."""

    def __init__(self, url: str, count: int, txn_keys: int) -> None:
        """`txn_keys`: ask for transactions, of so many keys."""
        self._url = url
        self._txn_keys = txn_keys
        self._done: list[float] = []
        self.failed = 0
        self._stopped = False
        self._threads = [threading.Thread(target=self._write, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _write(self) -> None:
        with Client(self._url, timeout=10.0) as client:
            while not self._stopped:
                try:
                    self._ask(client)
                except EpoxyError:
                    self.failed += 1
                self._done.append(time.monotonic())

    def _ask(self, client: Client) -> None:
        if self._txn_keys:
            names = [key_of(random.randrange(self._txn_keys), self._txn_keys) for _ in range(2)]
            client.txn(then=[Put(key=name, value=secrets.token_bytes(16)) for name in names])
        else:
            client.put(b"key:" + secrets.token_hex(8).encode(), bytes(16))

    def stop(self) -> None:
        self._stopped = True
        for thread in self._threads:
            thread.join()

    def rate(self, begin: float, end: float) -> float:
        return sum(begin <= at < end for at in self._done) / max(end - begin, 1e-9)

    def pause(self) -> float:
        """The longest time without an answer to any client."""
        done = sorted(self._done)
        return max([later - earlier for earlier, later in itertools.pairwise(done)], default=0.0)


class Watch:
    """Moments of the change, as the first node tells them."""

    def __init__(self, node: Node, replicas: int) -> None:
        self._node = node
        self._replicas = replicas
        self.began = time.monotonic()
        self.joint = self.ended = 0.0

    def wait(self) -> None:
        deadline = self.began + PATIENCE_S
        while time.monotonic() < deadline and not self.ended:
            status = self._node.ask("GET", "/v2/status")
            now = time.monotonic()
            self.joint = self.joint or (now if status["joint"] else 0.0)
            if status["replicas"] == self._replicas and not status["joint"]:
                self.ended = now
            time.sleep(LOOK_S)
        assert self.ended, "the change did not end"


def run(folder: Path, keys: int, python: str, *, writers: int, txns: bool, old: int, new: int) -> None:
    for me in range(1, old + 1):
        preload(folder / f"data-{me}", me, keys, owned=txns)
    with running(folder, old, new, python) as nodes:
        measure(nodes, keys, writers, old, txn_keys=keys if txns else 0)


@contextmanager
def running(folder: Path, old: int, new: int, python: str) -> Iterator[list[Node]]:
    """`old` first members and `new` nodes that may be added, ended with the block. If it fails, their last lines are
    printed."""
    (folder / "secret").write_text(secrets.token_hex(32))
    (folder / "secret").chmod(0o600)
    ports = [free_port() for _ in range(old + new)]
    nodes = [Node(folder, me, ports[:old], port, python=python) for me, port in enumerate(ports, start=1)]
    try:
        yield nodes
    except BaseException:
        for node in nodes:
            print((folder / f"{node.id}.log").read_text()[-2000:], file=sys.stderr)
        raise
    finally:
        for node in nodes:
            node.process.kill()
            node.process.wait()


def measure(nodes: list[Node], keys: int, writers: int, old: int, txn_keys: int) -> None:
    first, newcomers = nodes[0], nodes[old:]
    wait_until(lambda: all(node.answers() for node in nodes), "every node answers")
    wait_until(lambda: bool(first.ask("GET", "/v2/status")["ready"]), "the first is ready")
    load = Writers(first.url, writers, txn_keys)
    time.sleep(5.0 if writers else 1.0)
    cpu_s = [node.cpu_s() for node in nodes]
    watch = Watch(first, len(nodes))
    order = {"add": [{"id": node.id, "url": node.url, "datacenter": f"dc-{node.id}"} for node in newcomers]}
    print(f"ordered: {first.ask('POST', '/v2/members', order)}")
    watch.wait()
    spent = [f"{node.cpu_s() - before:.1f}" for node, before in zip(nodes, cpu_s, strict=True)]
    memory = [f"{node.most_memory_mib():.0f}" for node in nodes]
    time.sleep(2.0 if writers else 0.0)
    load.stop()
    copied_s = watch.joint - watch.began
    took_time("the copy", copied_s)
    all_answered("the copy", {f"node {node.id}": node.cpu_s() - was for node, was in zip(nodes, cpu_s, strict=True)})
    print(
        f"{keys} keys copied in {copied_s:.1f} s, {keys / copied_s:,.0f} a second; joint for "
        f"{watch.ended - watch.joint:.2f} s; CPU of each: {', '.join(spent)} s; most memory: {', '.join(memory)} MiB"
    )
    if writers:
        before = load.rate(watch.began - 5, watch.began)
        during = load.rate(watch.began, watch.joint)
        asked = "transactions" if txn_keys else "writes"
        print(
            f"{asked} a second: before {before:,.0f}, while it copied {during:,.0f}; "
            f"failed: {load.failed}; the longest time without an answer: {load.pause():.2f} s"
        )


def wait_until(condition: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < deadline, f"not so after {START_S:.0f} s: {words}"
        time.sleep(LOOK_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--python", default=sys.executable, help="whose `epoxy` is run: that of a compiled build, say")
    parser.add_argument("--writers", type=int, default=0)
    parser.add_argument("--txns", action="store_true", help="the keys belong to transactions")
    parser.add_argument("--old", type=int, default=1, help="members that hold the keys")
    parser.add_argument("--new", type=int, default=1, help="members that are added")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        run(
            folder,
            options.keys,
            options.python,
            writers=options.writers,
            txns=options.txns,
            old=options.old,
            new=options.new,
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
