"""A backup of many keys while clients write, and a node made of it: real processes, from the command to the file.

    python -m benchmarks.backup [--keys 1000000] [--writers 6] [--rate 20] [--python P] [--folder DIR]

Three nodes hold the keys. At each of them clients put fresh keys, `--rate` a second each, before, during and after the
backup, and their latencies are told for each node. Then every key that was acknowledged before the backup began is
looked up in the file, and `epoxy restore` makes a node of it.
"""

import argparse
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from msgspec import Struct

from benchmarks.learn_cluster import Node, free_port, running, wait_until
from benchmarks.plausible import took_time
from benchmarks.preload import key_of, preload
from benchmarks.stats import percentile
from epoxy.backup.files import BackupReader
from epoxy.backup.format import Kind
from epoxy.client import Client
from epoxy.codec import wire
from epoxy.model.errors import EpoxyError

NODES = 3
QUIET_S = 15.0


class Written(Struct, frozen=True):
    node: int
    key: bytes
    at: float
    """When it was acknowledged."""
    took_ms: float


class PacedWriters:
    """Each client begins a write every so often, if the one before is answered."""

    def __init__(self, nodes: list[Node], count: int, rate: float) -> None:
        self.written: list[Written] = []
        self.failed = 0
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._write, args=(nodes[i % NODES], 1 / rate), daemon=True) for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, node: Node, every_s: float) -> None:
        with Client(node.url, timeout=10.0) as client:
            begin = time.monotonic()
            while not self._stopped:
                key = b"key:" + secrets.token_hex(8).encode()
                begun = time.monotonic()
                try:
                    client.put(key, bytes(16))
                except EpoxyError:
                    self.failed += 1
                else:
                    now = time.monotonic()
                    self.written.append(Written(node.id, key, now, (now - begun) * 1000))
                begin = max(begin + every_s, time.monotonic() - every_s)
                time.sleep(max(0.0, begin - time.monotonic()))

    def stop(self) -> None:
        self._stopped = True
        for thread in self._threads:
            thread.join()

    def between(self, begin: float, end: float, node: int) -> list[float]:
        return [each.took_ms for each in self.written if begin <= each.at < end and each.node == node]


def run(folder: Path, keys: int, python: str, *, writers: int, rate: float) -> None:
    for me in range(1, NODES + 1):
        preload(folder / f"data-{me}", me, keys)
    file = folder / "all.backup"
    with running(folder, NODES, 0, python) as nodes:
        acknowledged = measure(nodes, keys, python, file, writers=writers, rate=rate)
    check(file, keys, acknowledged)
    restored(folder, file, python)


def measure(nodes: list[Node], keys: int, python: str, file: Path, *, writers: int, rate: float) -> set[bytes]:
    """Returns the keys that were acknowledged before the backup began."""
    wait_until(lambda: all(node.answers() for node in nodes), "every node answers")
    wait_until(lambda: all(node.ask("GET", "/v2/status")["ready"] for node in nodes), "all are ready")
    load = PacedWriters(nodes, writers, rate)
    time.sleep(QUIET_S / 3)
    quiet, quiet_cpu_s = time.monotonic(), [node.cpu_s() for node in nodes]
    time.sleep(QUIET_S)
    print(f"load average of the machine when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    quiet_cpu = [(node.cpu_s() - before) / QUIET_S for node, before in zip(nodes, quiet_cpu_s, strict=True)]
    print(f"CPU of each node in quiet: {', '.join(f'{each:.0%}' for each in quiet_cpu)}", flush=True)
    cpu_s = [node.cpu_s() for node in nodes]
    began = time.monotonic()
    acknowledged = {each.key for each in list(load.written)}
    subprocess.run([python, "-m", "epoxy", "backup", str(file), "--url", nodes[0].url], check=True)
    ended = time.monotonic()
    spent = [node.cpu_s() - before for node, before in zip(nodes, cpu_s, strict=True)]
    time.sleep(QUIET_S / 3)
    load.stop()
    took_time("the backup", ended - began)
    print(
        f"{keys:,} keys and {len(acknowledged):,} written before: {ended - began:.1f} s, "
        f"{file.stat().st_size / 1e6:.0f} MB; CPU of each node: {', '.join(f'{each:.1f}' for each in spent)} s; "
        f"most memory {', '.join(f'{node.most_memory_mib():.0f}' for node in nodes)} MiB; failed writes: {load.failed}"
    )
    for node in nodes:
        before, during = load.between(quiet, began, node.id), load.between(began, ended, node.id)
        told = [
            f"{words} p50 {percentile(found, 0.5):.1f}, p99 {percentile(found, 0.99):.1f} ms of {len(found):,}"
            for words, found in (("quiet", before), ("during", during))
        ]
        ratio = percentile(during, 0.99) / percentile(before, 0.99)
        print(f"writes at node {node.id}{' (makes it)' if node is nodes[0] else ''}: {'; '.join(told)}; {ratio:.2f}x")
    return acknowledged


def check(file: Path, keys: int, acknowledged: set[bytes]) -> None:
    """Key by key."""
    missing = {key_of(number, keys) for number in range(keys)} | acknowledged
    records = 0
    with BackupReader(file) as reader:
        for block in reader.blocks():
            if block.kind is Kind.KEYS:
                for key, record in block.records:
                    assert wire.decode_committed_record(record).committed.value == bytes(16), key
                    missing.discard(key)
                    records += 1
    assert not missing, f"{len(missing)} acknowledged keys are not in the backup, such as {sorted(missing)[:3]}"
    print(f"{records:,} keys in the file; every one that was acknowledged before it began is there")


def restored(folder: Path, file: Path, python: str) -> None:
    config = folder / "restored.toml"
    config.write_text(
        f'[node]\nid = 1\ndatacenter = "dc-1"\ndata_dir = "{folder / "restored"}"\nhttp = "127.0.0.1:{free_port()}"\n'
        f'[cluster]\nsecret_file = "{folder / "secret"}"\n'
        f'members = [{{id = 1, datacenter = "dc-1", url = "http://127.0.0.1:{free_port()}"}}]\n'
    )
    began = time.monotonic()
    subprocess.run([python, "-m", "epoxy", "restore", str(file), "--config", str(config)], check=True)
    print(f"restored in {time.monotonic() - began:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--python", default=sys.executable, help="whose `epoxy` is run: that of a compiled build, say")
    parser.add_argument("--writers", type=int, default=6)
    parser.add_argument("--rate", type=float, default=20.0, help="writes a second of each")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        run(folder, options.keys, options.python, writers=options.writers, rate=options.rate)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
