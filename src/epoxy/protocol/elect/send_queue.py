"""What waits for the connection to one peer: of each kind the newest, and nothing else.

A heartbeat is worth nothing once there is a later one, and so is an offer, a vote or an announcement of an earlier
epoch. So the box is never full, nothing new is refused for something old, and an announcement stays until it is sent or
overtaken by a higher one.
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
        """Everything, in the order in which it was put."""
        taken = list(self._waiting.values())
        self._waiting.clear()
        return taken

    def __len__(self) -> int:
        return len(self._waiting)
