"""What one Redis client may make the door hold, and for how long it may keep it busy, each with its reason."""

from msgspec import Struct

from epoxy.codec.resp_limits import ReaderLimits
from epoxy.model.records import MAX_VALUE_BYTES

STRANGERS = ReaderLimits(arguments=10, argument_bytes=16 << 10, command_bytes=16 << 10)
"""Who has not shown the password gets room for that, and no more. The sizes are those of Redis."""

PASSED_BYTES = 512 << 20
"""An argument this long is read past and its client told: as long as Redis takes one. Whoever sends it spends more on
it than this node."""

READ_WEIGHT = 64 << 10
"""What a value on its way from another region is taken to weigh; with the default limit one connection asks for 64."""

FLUSH_BYTES = 64 << 10
"""Replies are sent together, up to about what a socket takes at once."""

TURN_S = 0.005
"""How long one client's pipeline may keep the event loop to itself. Peers on the same continent are ten times as far
away, so what waits meanwhile is hardly later for it."""


RECITED_BYTES = 16 << 10
"""The longest piece of GETs that is answered in one go: the shortest has 20 bytes, so 800 of them, and their answers
stay below what may wait for a client."""


RESTED_BYTES = 128 << 10
"""After a piece this long nothing is read from the connection until others had a turn. The system hands over up to 32
pieces of 256 KiB otherwise, and what takes long to read need not leave anything to do: empty arrays, long values."""


class RespLimits(Struct, frozen=True, kw_only=True):
    """For each connection, but the first.

    `connections`: a process has so many files; half of the usual 1,024 stay for peers, HTTP and the store.
    `arguments`: keys in one MGET or DEL.
    `argument_bytes`: twice the longest value, so that one a little too long is told how long it is.
    `command_bytes`: an MGET of that many of the longest keys, and a SET, fit in.
    `pipeline`: commands under way; at 100 ms for a round trip one connection may still write 10,000 times a second.
    `held_bytes`: what commands under way hold, and replies that wait for an earlier one. As much again may wait for
    the client to take it.
    """

    connections: int = 512
    arguments: int = 1026
    argument_bytes: int = 2 * MAX_VALUE_BYTES
    command_bytes: int = 4 * MAX_VALUE_BYTES
    pipeline: int = 1024
    held_bytes: int = 4 * MAX_VALUE_BYTES

    @property
    def reader(self) -> ReaderLimits:
        return ReaderLimits(
            arguments=self.arguments,
            argument_bytes=self.argument_bytes,
            command_bytes=self.command_bytes,
            passed_bytes=PASSED_BYTES,
        )
