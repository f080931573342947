"""A node of the demo: a process that ends with its demo, and whose links can be cut. It is a whole region, unless that
has several (`postgres_region.py`)."""

import http.client
import os
import secrets
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import msgspec

from epoxy.model.api import SessionReport
from epoxy.model.errors import InvalidRequest, Unavailable
from epoxy.node.process.parent_death import before_exec
from epoxy.testing import ClusterNode, clean_environment
from epoxy.transport.limits import LINKS_PATH
from epoxy.transport.peers.auth import OPERATOR, sign, wall_ms
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.wan.emulation import LinkChange

LINKS_S = 20.0
"""For a node on this machine to change its links: milliseconds, unless the machine is overloaded."""

FIRST = 1
"""The number of the first node of a region: its files have the name of the region alone."""


class RegionNode(ClusterNode):
    """`number`: among the nodes of its region."""

    paused = False

    def __init__(
        self, *, node_id: int, datacenter: str, folder: Path, http: int, resp: int, number: int = FIRST
    ) -> None:
        super().__init__(node_id=node_id, datacenter=datacenter, folder=folder, http=http, resp=resp)
        self.number = number
        if number != FIRST:
            name = f"{datacenter}-{number}"
            self.config, self.log, self.data_dir = folder / f"{name}.toml", folder / f"{name}.log", folder / name

    @property
    def nodes(self) -> "list[RegionNode]":
        """All of its region."""
        return [self]

    @property
    def is_one_of_several(self) -> bool:
        return len(self.addresses) > 1

    @property
    def place(self) -> str:
        """In a sentence."""
        return f"node {self.number} of {self.datacenter}" if self.is_one_of_several else self.datacenter

    @property
    def order_words(self) -> str:
        """In an order."""
        return f"{self.datacenter} {self.number}" if self.is_one_of_several else self.datacenter

    @property
    def with_it(self) -> str:
        """What else ends when it is killed, in words."""
        return ""

    def ports(self) -> list[tuple[str, int]]:
        """What each is for."""
        return [("HTTP", int(self.url.rpartition(":")[2])), ("RESP", self.resp_port)]

    def give_token(self, token: str) -> None:
        self.token = token

    def gateway(self) -> "RegionNode":
        """The node that speaks with other regions."""
        return self

    def gateway_session(self) -> int:
        """0: the region has one node, or its nodes do not tell."""
        return 0

    def described(self) -> dict[str, Any]:
        """Its nodes, as JSON."""
        return {"nodes": [self.node_described(SessionReport(session=0, url=self.url, gateway=True))]}

    def node_described(self, seen: SessionReport | None) -> dict[str, Any]:
        """`seen`: by the table of its datacenter."""
        return {
            "node": self.number,
            "pid": self.pid,
            "condition": "down" if not self.running else "paused" if self.paused else "up",
            "http": self.url,
            "resp": f"127.0.0.1:{self.resp_port}",
            "gateway": seen is not None and seen.gateway,
            "shards": seen.shards if seen is not None and seen.session else None,
            "log": str(self.log.absolute()),
            "config": str(self.config.absolute()),
        }

    @property
    def is_whole(self) -> bool:
        """Whether all of it runs."""
        return self.running

    def open_database(self) -> bool:
        """Start what the region keeps its rows in. False: there is none but the node's own disk."""
        return False

    @property
    def up(self) -> bool:
        return self.running and not self.paused

    def pause(self) -> None:
        super().pause()
        self.paused = True

    def resume(self) -> None:
        super().resume()
        self.paused = False

    def start(self, *, wait: bool = True) -> None:
        self.paused = False
        super().start(wait=wait)

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    def change_links(
        self,
        secret: bytes,
        *,
        cut: Iterable[int] = (),
        heal: Iterable[int] = (),
        slow: Mapping[int, float] = MappingProxyType({}),
    ) -> None:
        """Asks the node to change its end of the links, signed with the cluster's secret."""
        body = msgspec.json.encode(LinkChange(cut=sorted(cut), heal=sorted(heal), slow=dict(slow)))
        header = SignedHeader(OPERATOR, self.id, 1, wall_ms(), secrets.randbits(64))
        signature, _ = sign(secret, header, LINKS_PATH, body)
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=LINKS_S)
        try:
            connection.request("POST", LINKS_PATH.decode(), body, {"authorization": signature.decode()})
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except OSError as error:
            raise Unavailable(f"{self.datacenter} does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise InvalidRequest(f"{self.datacenter} refused to change its links: {answer.status} {text.strip()}")

    def _spawn(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """In a process group of its own: Ctrl-C is for the demo, which ends its regions in order; a store survives that
        they are killed with it. Between fork and exec only two system calls are made and no lock is taken, so other
        threads do no harm."""
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=clean_environment(os.environ),
            process_group=0,
            preexec_fn=before_exec(os.getpid()),  # noqa: PLW1509
        )
