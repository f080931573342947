"""The watchdog: a small process that fences the server when the agent cannot.

The agent writes to its pipe, line by line, until when the server may take writes, on the clock that all processes of a
machine share. When that time is over without a newer line, because the agent hangs, was stopped or is late, the
watchdog fences the server. When the pipe is closed, because the agent is gone, it fences at once and ends.
"""

import os
import select
import socket
import sys
import time

from epoxy.agent.redis import FENCE, encode

PASSWORD_VARIABLE = "EPOXY_WATCHDOG_PASSWORD"
"""The environment variable with the server's password. Arguments would be visible to every user of the machine."""

GIVE_UP_S = 600.0
"""By then another agent is in charge, or the cluster has no primary."""

RETRY_S = 0.05
REPLY_S = 0.5
"""For the replies of the server before the commands are sent again."""


def clock_ms() -> int:
    """The clock that all processes of a machine share. It goes on while the machine is suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def main(arguments: list[str]) -> None:
    host, port, user = arguments[0], int(arguments[1]), arguments[2]
    password = os.environ.pop(PASSWORD_VARIABLE, "")
    login = [("AUTH", user, password) if user else ("AUTH", password)] if password else []
    commands = b"".join(encode(command) for command in (*login, *FENCE))
    Watchdog(host, port, commands, len(login) + len(FENCE)).run()


class Watchdog:
    def __init__(self, host: str, port: int, commands: bytes, replies: int) -> None:
        self._address = (host, port)
        self._commands = commands
        self._replies = replies
        self._until_ms: int | None = None

    def run(self) -> None:
        stdin = sys.stdin.fileno()
        rest = b""
        while True:
            wait_s = None if self._until_ms is None else max(0, self._until_ms - clock_ms()) / 1000
            ready, _, _ = select.select([stdin], [], [], wait_s)
            if not ready:
                self._fence_once()
                continue
            data = os.read(stdin, 4096)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            self._read_deadline(lines)
        if self._until_ms is not None:
            self._fence()

    def _read_deadline(self, lines: list[bytes]) -> None:
        """A deadline in milliseconds, or 0 when the server is closed already. Only the last line counts."""
        if lines:
            until_ms = int(lines[-1])
            self._until_ms = until_ms or None

    def _fence_once(self) -> None:
        """Once: a live agent sees the server's new mode and decides what follows."""
        self._until_ms = None
        self._fence()

    def _fence(self) -> None:
        """A server that refuses connections is gone and takes no writes; one that does not answer is tried until it
        does."""
        give_up_s = time.monotonic() + GIVE_UP_S
        while time.monotonic() < give_up_s:
            try:
                with socket.create_connection(self._address, REPLY_S) as link:
                    link.sendall(self._commands)
                    self._await_replies(link)
                return
            except ConnectionRefusedError:
                return
            except OSError:
                time.sleep(RETRY_S)

    def _await_replies(self, link: socket.socket) -> None:
        got = b""
        while got.count(b"\r\n") < self._replies:
            data = link.recv(4096)
            if not data:
                raise OSError("closed before it answered")
            got += data


if __name__ == "__main__":
    main(sys.argv[1:])
