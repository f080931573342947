"""Limits of one Redis connection, in memory and in time on the event loop, each with its reason."""

from msgspec import Struct

from epoxy.codec.resp_limits import ReaderLimits
from epoxy.model.records import MAX_VALUE_BYTES

UNAUTHENTICATED = ReaderLimits(arguments=10, argument_bytes=16 << 10, command_bytes=16 << 10)
"""Before AUTH: enough for a token. The sizes are those of Redis."""

PASSED_BYTES = 512 << 20
"""The longest argument that is skipped and answered with an error, the limit of Redis; beyond, the connection is
closed. Sending it costs the client more than skipping it costs this node."""

READ_WEIGHT = 64 << 10
"""The estimated size of a value that is being read from another region; with the default limit one connection reads 64
of them at a time."""

REFUSED_S = 2.0
"""After which a connection that was refused is aborted: with TLS it would wait for the client's close_notify, and its
file descriptor with it."""

HALF_COMMAND_S = 1.0
"""How long a stopping node waits for the rest of a command, in which the segment of a pipeline ended: several of the
longest round trips on earth."""

LULL_S = 0.05
"""After the last piece of a pipeline at a stopping node: pieces follow each other without a pause, but for those that
the client's process or its network makes."""

FLUSH_BYTES = 64 << 10
"""Replies are sent together, up to about what a socket takes at once."""

TURN_S = 0.001
"""How long one connection's pipeline may hold the event loop: as long as pipelined requests of one HTTP connection
(`HttpLimits.turn_s`). A request of another client takes a few turns of the loop, each of them as long as the turns of
all busy connections together."""

SLICE_BYTES = 16 << 10
"""Read in one go: 2,300 of the shortest arguments, half a millisecond of a compiled reader, and two and a half of one
that is not."""


CACHED_GETS_BYTES = 16 << 10
"""The longest chunk of GETs that is answered from the cache in one go: the shortest GET has 20 bytes, so 800 of them,
and their replies stay below `held_bytes`."""


LONG_CHUNK_BYTES = 128 << 10
"""After a chunk this long nothing is read from the connection until other connections had a turn: the loop would hand
over up to 32 chunks of 256 KiB, and parsing alone takes time even if it yields no command (empty arrays, long
values)."""

COMMAND_BYTES = 256
"""The estimated size of a command that was read and has not begun: a list with a name and a short key."""

UNREAD_BYTES = 256 << 10
"""Replies in the send buffer beyond which no further command is begun."""


class RespLimits(Struct, frozen=True, kw_only=True):
    """`connections` is a limit of the node, all others are limits of one connection.

    `connections`: half of the usual 1,024 file descriptors stay for peers, HTTP and the store.
    `arguments`: keys in one MGET or DEL.
    `argument_bytes`: twice the longest value, so that the error for one a little too long can say how long it is.
    `command_bytes`: an MGET of that many of the longest keys, and a SET, fit in.
    `pipeline`: commands under way; at 100 ms for a round trip one connection may still write 10,000 times a second.
    `request_timeout_ms`: below the five seconds that clients usually wait.
    `held_bytes`: arguments of commands under way, and replies that wait for an earlier one.
    """

    connections: int = 512
    arguments: int = 1026
    argument_bytes: int = 2 * MAX_VALUE_BYTES
    command_bytes: int = 4 * MAX_VALUE_BYTES
    pipeline: int = 1024
    held_bytes: int = 4 * MAX_VALUE_BYTES
    request_timeout_ms: float = 4_000.0

    @property
    def reader(self) -> ReaderLimits:
        return ReaderLimits(
            arguments=self.arguments,
            argument_bytes=self.argument_bytes,
            command_bytes=self.command_bytes,
            passed_bytes=PASSED_BYTES,
        )
