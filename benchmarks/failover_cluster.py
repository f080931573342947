"""Real servers with their agents on this machine, for the tests of failover and for its benchmark."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from epoxy.agent.connection import ReplyReader
from epoxy.agent.redis import NOWHERE, Reply, encode
from epoxy.model.elect_status import AgentStatus
from epoxy.testing import free_ports

NAMES = "abcde"
CLUSTER = "mymaster"
PATIENCE_S = 60.0
"""For what takes a second or two on a machine that has time."""

LOOK_S = 0.01

T = TypeVar("T")


def wait_for(look: Callable[[], T], words: str, patience_s: float = PATIENCE_S) -> T:
    """Repeats until it is true, or the time is over."""
    deadline_s = time.monotonic() + patience_s
    while True:
        seen: T | None = None
        with suppress(OSError):
            seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline_s:
            raise TimeoutError(words)
        time.sleep(LOOK_S)


def ask(port: int, *words: str, patience_s: float = 2.0) -> Reply:
    with socket.create_connection(("127.0.0.1", port), patience_s) as link:
        link.sendall(encode(words))
        reader = ReplyReader()
        while True:
            data = link.recv(65_536)
            if not data:
                raise ConnectionResetError("no answer")
            if replies := reader.feed(data):
                return replies[0]


class Member:
    """One node: a server, its agent, and the ports of both."""

    def __init__(self, name: str, folder: Path, server_port: int, clients_port: int) -> None:
        self.name = name
        self.folder = folder
        self.server_port = server_port
        self.clients_port = clients_port
        self.server: subprocess.Popen[bytes] | None = None
        self.agent: subprocess.Popen[bytes] | None = None

    def status(self) -> AgentStatus:
        told = ask(self.clients_port, "ELECT", "STATUS")
        assert isinstance(told, bytes)
        return msgspec.json.decode(told, type=AgentStatus)


class ElectCluster:
    """`front`: the ports under which nodes are known, where these are not their own. `listed`: the nodes of the list
    that is in force; `members` has all that there are ports for."""

    def __init__(
        self,
        folder: Path,
        server_binary: Path,
        *,
        n: int = 3,
        down_after_ms: int = 1_000,
        min_replicas: int = 1,
        kill_hung: bool = False,
        appendonly: bool = True,
        listed: str = "",
        more: str = "",
    ) -> None:
        """`more`: sections for the files of all agents."""
        self.folder = folder
        self._more = more
        self.listed = listed or NAMES[:n]
        self.members: dict[str, Member] = {}
        self._binary = server_binary
        self._appendonly = appendonly
        self._kill_hung = "true" if kill_hung else "false"
        ports = free_ports(5 * n)
        self.control = dict(zip(NAMES, ports[:n], strict=False))
        self.listen = dict(zip(NAMES, ports[n : 2 * n], strict=False))
        self.front = dict(zip(NAMES, ports[2 * n : 3 * n], strict=False))
        for i, name in enumerate(NAMES[:n]):
            self.members[name] = Member(name, folder, ports[3 * n + i], ports[4 * n + i])
        self._min_replicas = min_replicas
        self._down_after_ms = down_after_ms

    def write_files(self, *, proxied: bool = False) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "secret").write_bytes(b"not a secret, only a test of one")
        settings = (
            f'[cluster]\nname = "{CLUSTER}"\nsecret_file = "secret"\ninitial_primary = "{self.listed[0]}"\n'
            f"min_replicas_to_write = {self._min_replicas}\n[timing]\ndown_after_ms = {self._down_after_ms}\n"
            f"{self._more}"
        )
        for name in self.listed:
            member = self.members[name]
            nodes = "".join(self._node(other, proxied=proxied) for other in self.listed)
            listen = self.listen[name] if proxied else self.control[name]
            own = (
                f'[node]\nid = "{name}"\ndata_dir = "{name}-agent"\nlisten = "127.0.0.1:{listen}"\n'
                f'clients = "127.0.0.1:{member.clients_port}"\n'
                f'[server]\naddress = "127.0.0.1:{member.server_port}"\nkill_hung = {self._kill_hung}\n'
            )
            (self.folder / f"{name}.toml").write_text(own + settings + nodes)

    def _node(self, name: str, *, proxied: bool) -> str:
        server = self.front[name] if proxied else self.members[name].server_port
        return f'[[nodes]]\nid = "{name}"\ncontrol = "127.0.0.1:{self.control[name]}"\nserver = "127.0.0.1:{server}"\n'

    def start_server(self, name: str) -> None:
        """As an operator's file would have it: a replica of no server until it gets an order."""
        member = self.members[name]
        data = self.folder / f"{name}-server"
        data.mkdir(exist_ok=True)
        words = ["--port", str(member.server_port), "--bind", "127.0.0.1", "--dir", str(data), "--save", ""]
        words += ["--appendonly", "yes" if self._appendonly else "no", "--logfile", str(data / "log")]
        words += ["--replicaof", NOWHERE.host, str(NOWHERE.port), "--repl-diskless-sync-delay", "0"]
        member.server = subprocess.Popen([str(self._binary), *words], stdout=subprocess.DEVNULL)

    def start_agent(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "epoxy", "elect", "run", "--config", str(self.folder / f"{name}.toml")]
            self.members[name].agent = subprocess.Popen(command, stdout=log, stderr=log)

    def start(self) -> None:
        for name in self.listed:
            self.start_server(name)
        for name in self.listed:
            self.start_agent(name)
        self.primary()

    def end_agent(self, name: str) -> None:
        """As an operator does: it makes way first."""
        agent = self.members[name].agent
        assert agent is not None
        agent.terminate()
        agent.wait(PATIENCE_S)

    def relist(self, listed: str, *, min_replicas: int = 1) -> None:
        """Another list of nodes in all files. Who is new is started; who was there goes on until it is restarted."""
        before, self.listed, self._min_replicas = self.listed, listed, min_replicas
        self.write_files()
        for name in listed:
            if name not in before:
                self.start_server(name)
                self.start_agent(name)

    def stop(self) -> None:
        """Agents first: their guards close what is open. No agent may have given up by itself, whatever happened."""
        hung: list[str] = []
        for kind in ("agent", "server"):
            for member in self.members.values():
                process: subprocess.Popen[bytes] | None = getattr(member, kind)
                if process is not None and process.poll() is None:
                    process.send_signal(signal.SIGCONT)
                    process.kill() if kind == "server" else process.terminate()
            for member in self.members.values():
                process = getattr(member, kind)
                if process is not None and not ended(process):
                    hung.append(f"{kind} {member.name}")
        assert not hung, f"killed, because they did not end in {PATIENCE_S:.0f} s: {hung}, see {self.folder}"
        broken = [name for name in self.members if "Traceback" in self._log_of(name)]
        assert not broken, f"agents that gave up: {broken}, see {self.folder}"

    def _log_of(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    # What is going on

    def primary(self, *, but: str = "") -> str:
        """The node whose server takes writes, as a majority of agents says and the server itself shows."""
        return wait_for(lambda: self.primary_now(but=but), f"no primary but {but or 'any'}: {self.folder}")

    def primary_now(self, *, but: str = "") -> str:
        said: dict[str, int] = {}
        for member in self.members.values():
            with suppress(OSError, msgspec.DecodeError):
                primary = member.status().primary
                if primary is not None and primary != but:
                    said[primary] = said.get(primary, 0) + 1
        return next((name for name, count in said.items() if count > len(self.listed) // 2), "")

    def takes_writes(self, name: str) -> bool:
        """By its own word: a write of a key that is never read."""
        try:
            return ask(self.members[name].server_port, "SET", "probe", name) == b"OK"
        except OSError:
            return False

    def followers(self, name: str) -> int:
        told = ask(self.members[name].server_port, "INFO", "replication")
        return told.count(b"state=online") if isinstance(told, bytes) else 0

    # What may happen

    def signal_server(self, name: str, number: signal.Signals) -> None:
        server = self.members[name].server
        assert server is not None
        server.send_signal(number)
        if number is signal.SIGKILL:
            server.wait(PATIENCE_S)

    def signal_agent(self, name: str, number: signal.Signals) -> None:
        agent = self.members[name].agent
        assert agent is not None
        agent.send_signal(number)
        if number is signal.SIGKILL:
            agent.wait(PATIENCE_S)

    def agent_cpu_s(self, name: str) -> float:
        """User and system time the agent has used, its guard not counted."""
        agent = self.members[name].agent
        assert agent is not None
        fields = Path(f"/proc/{agent.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ended(process: "subprocess.Popen[bytes]") -> bool:
    """False: it had to be killed."""
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


@contextmanager
def running(cluster: ElectCluster) -> Iterator[ElectCluster]:
    cluster.write_files()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
