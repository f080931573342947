"""Redis Sentinel on this machine, with the same servers, the same clients and the same down-after as ours."""

import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from benchmarks.failover_cluster import CLUSTER, NAMES, PATIENCE_S, ask, wait_for
from epoxy.testing import free_ports

FAILOVER_TIMEOUT_MS = 10_000
"""How long one Sentinel lets another one's failover take before it tries itself."""


class SentinelCluster:
    """A server and a Sentinel for each name; the quorum is a majority, as with ours."""

    def __init__(self, folder: Path, server_binary: Path, *, n: int, down_after_ms: int, min_replicas: int) -> None:
        ports = free_ports(2 * n)
        self.folder = folder
        self.server_ports = dict(zip(NAMES, ports[:n], strict=False))
        self.sentinel_ports = dict(zip(NAMES, ports[n:], strict=False))
        self._binary = server_binary
        self._down_after_ms = down_after_ms
        self._min_replicas = min_replicas
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        self._sentinels: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in self.server_ports:
            self.start_server(name, "a")
        wait_for(lambda: self.followers("a") == len(self.server_ports) - 1, "the replicas do not follow")
        for name in self.sentinel_ports:
            self._configure(name)
            self.start_sentinel(name)
        wait_for(lambda: self._all_met(), "the Sentinels do not meet")

    def stop(self) -> None:
        for process in (*self._sentinels.values(), *self._servers.values()):
            process.kill()
            process.wait(PATIENCE_S)

    def start_server(self, name: str, primary: str) -> None:
        data = self.folder / f"{name}-server"
        data.mkdir(exist_ok=True)
        words = ["--port", str(self.server_ports[name]), "--bind", "127.0.0.1", "--dir", str(data), "--save", ""]
        words += ["--appendonly", "yes", "--repl-diskless-sync-delay", "0", "--logfile", str(data / "log")]
        words += ["--min-replicas-to-write", str(self._min_replicas), "--min-replicas-max-lag", "1"]
        if name != primary:
            words += ["--replicaof", "127.0.0.1", str(self.server_ports[primary])]
        self._servers[name] = subprocess.Popen([str(self._binary), *words], stdout=subprocess.DEVNULL)

    def _configure(self, name: str) -> None:
        lines = [
            f"port {self.sentinel_ports[name]}",
            "bind 127.0.0.1",
            f'logfile "{self.folder / f"{name}-sentinel.log"}"',
            f"sentinel monitor {CLUSTER} 127.0.0.1 {self.server_ports['a']} {len(self.server_ports) // 2 + 1}",
            f"sentinel down-after-milliseconds {CLUSTER} {self._down_after_ms}",
            f"sentinel failover-timeout {CLUSTER} {FAILOVER_TIMEOUT_MS}",
            f"sentinel parallel-syncs {CLUSTER} {len(self.server_ports) - 1}",
        ]
        (self.folder / f"{name}.conf").write_text("\n".join(lines) + "\n")

    def start_sentinel(self, name: str) -> None:
        command = [str(self._binary), str(self.folder / f"{name}.conf"), "--sentinel"]
        self._sentinels[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def _all_met(self) -> bool:
        others = len(self.sentinel_ports) - 1
        told = [ask(port, "SENTINEL", "sentinels", CLUSTER) for port in self.sentinel_ports.values()]
        return all(isinstance(each, list) and len(each) == others for each in told)

    def followers(self, name: str) -> int:
        told = ask(self.server_ports[name], "INFO", "replication")
        return told.count(b"state=online") if isinstance(told, bytes) else 0

    def primary_now(self, *, but: str = "") -> str:
        said: dict[str, int] = {}
        by_port = {str(port).encode(): name for name, port in self.server_ports.items()}
        for port in self.sentinel_ports.values():
            with suppress(OSError):
                told = ask(port, "SENTINEL", "get-master-addr-by-name", CLUSTER)
                if isinstance(told, list) and isinstance(told[1], bytes) and by_port.get(told[1], but) != but:
                    said[by_port[told[1]]] = said.get(by_port[told[1]], 0) + 1
        return next((name for name, count in said.items() if count > len(self.server_ports) // 2), "")

    def signal_server(self, name: str, number: signal.Signals) -> None:
        self._servers[name].send_signal(number)
        if number is signal.SIGKILL:
            self._servers[name].wait(PATIENCE_S)

    def signal_sentinel(self, name: str, number: signal.Signals) -> None:
        self._sentinels[name].send_signal(number)
        if number is signal.SIGKILL:
            self._sentinels[name].wait(PATIENCE_S)
