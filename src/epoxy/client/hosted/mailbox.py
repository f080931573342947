"""The mailbox of an actor: what waits for a turn. Without IO."""

import enum
from collections import deque

from epoxy.client.hosted.requests import Request
from epoxy.client.hosted.sockets import Socket

MAX_QUEUED = 1000
"""Requests and handshakes in one actor's mailbox. More are refused at once."""

MAX_UNREAD_MESSAGES = 10_000
MAX_UNREAD_BYTES = 16 << 20
"""Of messages and of bodies that wait in one mailbox. With more of them a socket that sends is closed, and a request is
refused."""


class MailKind(enum.Enum):
    REQUEST = "on_request"
    CONNECT = "on_connect"
    MESSAGE = "on_message"
    DISCONNECT = "on_disconnect"
    ALARM = "on_alarm"


class Mail:
    """`size`: bytes that it holds while it waits."""

    __slots__ = ("kind", "message", "request", "size", "socket")

    def __init__(
        self,
        kind: MailKind,
        *,
        request: Request | None = None,
        socket: Socket | None = None,
        message: str | bytes = b"",
        size: int = 0,
    ) -> None:
        self.kind = kind
        self.request = request
        self.socket = socket
        self.message = message
        self.size = size


class Mailbox:
    def __init__(self) -> None:
        self._mail: deque[Mail] = deque()
        self._unread_bytes = self._asked = self._messages = 0

    def __len__(self) -> int:
        return len(self._mail)

    @property
    def is_full(self) -> bool:
        """For requests and handshakes."""
        return self._asked >= MAX_QUEUED or self._unread_bytes > MAX_UNREAD_BYTES

    @property
    def overflows(self) -> bool:
        """With messages."""
        return self._messages >= MAX_UNREAD_MESSAGES or self._unread_bytes > MAX_UNREAD_BYTES

    def put(self, mail: Mail) -> None:
        self._mail.append(mail)
        self._count(mail, 1)

    def take(self) -> Mail | None:
        if not self._mail:
            return None
        mail = self._mail.popleft()
        self._count(mail, -1)
        return mail

    def remove(self, unwanted: set[int]) -> None:
        """Requests with these numbers."""
        kept = [each for each in self._mail if each.request is None or each.request.number not in unwanted]
        for each in self._mail:
            self._count(each, -1)
        self._mail = deque()
        for each in kept:
            self.put(each)

    def has(self, kind: MailKind) -> bool:
        return any(each.kind is kind for each in self._mail)

    def _count(self, mail: Mail, sign: int) -> None:
        self._unread_bytes += sign * mail.size
        if mail.kind in (MailKind.REQUEST, MailKind.CONNECT):
            self._asked += sign
        elif mail.kind is MailKind.MESSAGE:
            self._messages += sign
