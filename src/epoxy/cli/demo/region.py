"""One region of the demo: a process that ends with its demo, and whose links can be cut."""

import ctypes
import http.client
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import IO

import msgspec

from epoxy.model.errors import InvalidRequest, Unavailable
from epoxy.testing import ClusterNode, clean_environment
from epoxy.transport.limits import LINKS_PATH
from epoxy.transport.peers.auth import OPERATOR, sign, wall_ms
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.wan.emulation import LinkChange

LINKS_S = 20.0
"""For a node on this machine to change its links: milliseconds, unless the machine is overloaded."""

PR_SET_PDEATHSIG = 1
"""From Linux's prctl.h."""


class RegionNode(ClusterNode):
    paused = False

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
        """In a process group of its own: Ctrl-C is for the demo, which ends its regions in order. Between fork and exec
        only two system calls are made and no lock is taken, so other threads do no harm."""
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=clean_environment(os.environ),
            process_group=0,
            preexec_fn=die_with_parent(os.getpid()),  # noqa: PLW1509
        )


def die_with_parent(parent: int) -> Callable[[], None] | None:
    """On Linux the kernel kills a region when the demo ends, in whatever way; a store survives that by design. libc is
    loaded before the fork, because little is safe after it. On other systems a demo that is killed with SIGKILL leaves
    its regions behind."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare
