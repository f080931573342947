"""The messages that wait for the connection to one peer: the newest of each kind.

A heartbeat is worthless once there is a later one, and so is an offer, a vote or an announcement of an earlier epoch.
So the queue is never full, a new message is never refused because of an old one, and an announcement stays until it is
sent or replaced by one of a higher epoch.
"""

from epoxy.protocol.elect.messages import Message


class SendQueue:
    """Invariant: at most one message of each of the six kinds."""

    def __init__(self) -> None:
        self._waiting: dict[type[Message], Message] = {}

    def put(self, message: Message) -> None:
        before = self._waiting.pop(type(message), None)
        self._waiting[type(message)] = message if before is None or message.epoch >= before.epoch else before

    def take(self) -> list[Message]:
        """All messages, in the order in which they were put."""
        taken = list(self._waiting.values())
        self._waiting.clear()
        return taken

    def __len__(self) -> int:
        return len(self._waiting)
