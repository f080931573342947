"""The tokens of a demo that asks for them: one for each kind of client, in files of its folder."""

import time
from collections.abc import Sequence
from pathlib import Path

from epoxy.cli.credentials import write_private
from epoxy.client.token import read_token
from epoxy.model.errors import AccessRefused, InvalidRequest, Unavailable
from epoxy.testing import SLOW_POLL_S, START_S, ClusterNode

ADMIN, APP, WORKER, CONSOLE = "admin", "app", "worker", "console"
ROLES = {
    ADMIN: ("operator",),
    APP: ("writer", "caller"),
    WORKER: ("worker", "caller"),
    CONSOLE: ("operator", "writer", "caller"),
}
"""The console shows members and keys on one page, and has one token at a time."""


def files(folder: Path) -> dict[str, str]:
    return {name: str((folder / f"{name}.token").absolute()) for name in ROLES}


def made(folder: Path, nodes: Sequence[ClusterNode]) -> str:
    """The administrator's token. Those that an earlier run made are kept: the cluster has their hashes."""
    places = {name: Path(file) for name, file in files(folder).items()}
    if not all(place.exists() for place in places.values()):
        make(places, nodes)
    return read_token(places[ADMIN])


def make(places: dict[str, Path], nodes: Sequence[ClusterNode]) -> None:
    admin = nodes[0].init_auth(ADMIN)
    write_private(places[ADMIN], admin, replace=True)
    deadline = time.monotonic() + START_S
    with nodes[0].client(token=admin) as client:
        for name in (APP, WORKER, CONSOLE):
            client.auth.revoke_token(name)
            token = client.auth.create_token(name, ROLES[name])
            if token is None:
                raise InvalidRequest(f"another process makes a token for {name}")
            write_private(places[name], token.token, replace=True)
    for node in nodes:
        await_known(node, read_token(places[CONSOLE]), deadline)


def await_known(node: ClusterNode, token: str, deadline: float) -> None:
    """A token that was just made reaches the other regions within seconds. Told to wait, users would not."""
    with node.client(token=token) as client:
        while True:
            try:
                client.auth.whoami()
                return
            except (AccessRefused, Unavailable):
                if time.monotonic() > deadline:
                    raise
                time.sleep(SLOW_POLL_S)
