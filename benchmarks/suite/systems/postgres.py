"""PostgreSQL with one synchronous standby: a commit is acknowledged when both have it on their disks
(`synchronous_commit = on`). It refuses to run as root, so then it runs as the user of files that belong to nobody."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.suite.job import MARK, Wire, value_of
from benchmarks.suite.processes import Server, free_ports, wait_until
from benchmarks.suite.systems.base import LOAD_S, Door, Generate, Operation, System, loaded_key
from benchmarks.suite.wires import postgres

USER, DATABASE = "bench", "postgres"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "1100",
    "synchronous_commit": "on",
    "synchronous_standby_names": "standby",
    "wal_level": "replica",
    "hot_standby": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "8GB",
    "fsync": "on",
}


class Postgres(System):
    name = "PostgreSQL"

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder = folder
        self._binaries = binaries
        self._ports = free_ports(2)
        self._servers: list[Server] = []
        self._user = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else None

    def start(self) -> None:
        self._make()
        self._run("primary", self._ports[0])
        self._table()
        self._servers[0].end(signal.SIGINT)
        self._servers.clear()
        shutil.copytree(
            self.folder / "primary", self.folder / "standby", ignore=shutil.ignore_patterns("postmaster.pid")
        )
        (self.folder / "standby" / "standby.signal").touch()
        for path in ((self.folder / "standby"), *(self.folder / "standby").rglob("*")):
            if self._user is not None:
                os.chown(path, self._user, self._user)
        self._run("primary", self._ports[0], **SETTINGS)
        source = f"host=127.0.0.1 port={self._ports[0]} user={USER} application_name=standby"
        self._run("standby", self._ports[1], **SETTINGS, primary_conninfo=source)
        wait_until(
            lambda: b"sync" in self._ask("select sync_state from pg_stat_replication"), self._servers[1], self.name
        )

    def stop(self) -> None:
        """The standby last: the primary waits for it."""
        for server in self._servers:
            server.end(signal.SIGINT)

    @property
    def version(self) -> str:
        done = subprocess.run([self._binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
        return done.stdout.split()[2]

    @property
    def roots(self) -> tuple[int, ...]:
        return tuple(server.pid for server in self._servers)

    @property
    def doors(self) -> Mapping[str, Door]:
        speak = {Operation.CREATE: postgres.create, Operation.PUT: postgres.put, Operation.GET: postgres.get}
        greetings = dict.fromkeys(Operation, postgres.greeting(USER, DATABASE))
        return {"SQL": Door(wire=Wire.POSTGRES, ports=(self._ports[0],), speak=speak, greetings=greetings)}

    def load(self, keys: int, generate: Generate) -> str:  # noqa: ARG002 (others need it)
        key, value = (text.split(MARK) for text in (loaded_key(), value_of(16)))
        number = "convert_to(lpad(number::text, 12, '0'), 'UTF8')"
        names = " || ".join((literal(key[0]), number, literal(key[1])))
        values = " || ".join((number, literal(value[1])))
        done = self._ask(f"insert into kv select {names}, {values} from generate_series(0, {keys - 1}) number")
        if postgres.done(f"INSERT 0 {keys}") not in done:
            raise RuntimeError(f"{self.name}: the keys were not loaded: {postgres.trouble(done)}")
        return "one INSERT"

    def _make(self) -> None:
        self.folder.mkdir(parents=True)
        if self._user is not None:
            os.chown(self.folder, self._user, self._user)
        command = [
            str(self._binaries / "initdb"),
            "-D",
            str(self.folder / "primary"),
            "-U",
            USER,
            "-A",
            "trust",
            "--no-sync",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.folder, user=self._user, group=self._user,
            extra_groups=[] if self._user is not None else None,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"initdb failed:\n{done.stderr[-2000:]}")

    def _run(self, role: str, port: int, **settings: str) -> None:
        folder = self.folder / role
        options = {"port": str(port), "unix_socket_directories": "", **(settings or {"listen_addresses": "127.0.0.1"})}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        server = Server([str(self._binaries / "postgres"), "-D", str(folder), *words], folder, user=self._user)
        self._servers.append(server)
        wait_until(lambda: b"SELECT 1" in self._ask("select 1", port), server, self.name)

    def _table(self) -> None:
        self._ask("create table kv (key bytea primary key, value bytea not null)")

    def _ask(self, statement: str, port: int | None = None) -> bytes:
        """The answer's bytes; none if nobody answers."""
        found = b""
        try:
            with socket.create_connection(("127.0.0.1", port or self._ports[0]), timeout=LOAD_S) as line:
                for raw in (postgres.startup(USER, DATABASE), postgres.message(b"Q", statement.encode() + b"\0")):
                    line.sendall(raw)
                    found = b""
                    while not found.endswith(postgres.READY):
                        found += (part := line.recv(65536))
                        if not part or found.startswith(b"E"):
                            return found if found.startswith(b"E") else b""
        except OSError:
            return b""
        return found


def literal(data: bytes) -> str:
    return f"'\\x{data.hex()}'::bytea"
