"""The guard: a small process that closes the server when the agent cannot.

It is told, line by line, until when the server may take writes, on the clock that all processes of a machine share.
When that time is over and nothing newer was said, because the agent hangs, was stopped or is late, it fences the
server. When the agent is gone, its end of the pipe is closed, and the guard fences at once and ends.
"""

import os
import select
import socket
import sys
import time

from epoxy.agent.redis import FENCE, encode

PASSWORD = "EPOXY_GUARD_PASSWORD"
"""The variable it is given the server's password in: arguments are for everybody to read."""

GIVE_UP_S = 600.0
"""After this another agent is in charge, or nobody is."""

RETRY_S = 0.05
ANSWER_S = 0.5
"""How long the server may take to say that it is fenced before it is told again."""


def clock_ms() -> int:
    """The clock that all processes of a machine share, and that goes on while the machine is suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def main(arguments: list[str]) -> None:
    host, port, user = arguments[0], int(arguments[1]), arguments[2]
    password = os.environ.pop(PASSWORD, "")
    login = [("AUTH", user, password) if user else ("AUTH", password)] if password else []
    order = b"".join(encode(command) for command in (*login, *FENCE))
    Watchdog(host, port, order, len(login) + len(FENCE)).run()


class Watchdog:
    def __init__(self, host: str, port: int, order: bytes, answers: int) -> None:
        self._address = (host, port)
        self._order = order
        self._answers = answers
        self._until_ms: int | None = None

    def run(self) -> None:
        stdin = sys.stdin.fileno()
        rest = b""
        while True:
            wait_s = None if self._until_ms is None else max(0, self._until_ms - clock_ms()) / 1000
            ready, _, _ = select.select([stdin], [], [], wait_s)
            if not ready:
                self._fence_until_told()
                continue
            data = os.read(stdin, 4096)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            self._heed(lines)
        if self._until_ms is not None:
            self._fence()

    def _heed(self, lines: list[bytes]) -> None:
        """A deadline in milliseconds, or 0 when the server is closed already."""
        if lines:
            until_ms = int(lines[-1])
            self._until_ms = until_ms or None

    def _fence_until_told(self) -> None:
        """Once; then it is the agent's turn again, which sees what the server is."""
        self._until_ms = None
        self._fence()

    def _fence(self) -> None:
        """A server that is gone takes no writes; one that does not answer is tried until it does or is gone."""
        give_up_s = time.monotonic() + GIVE_UP_S
        while time.monotonic() < give_up_s:
            try:
                with socket.create_connection(self._address, ANSWER_S) as link:
                    link.sendall(self._order)
                    self._await_answers(link)
                return
            except ConnectionRefusedError:
                return
            except OSError:
                time.sleep(RETRY_S)

    def _await_answers(self, link: socket.socket) -> None:
        got = b""
        while got.count(b"\r\n") < self._answers:
            data = link.recv(4096)
            if not data:
                raise OSError("closed before it answered")
            got += data


if __name__ == "__main__":
    main(sys.argv[1:])
