"""What a Redis server answers, out of a stream. RESP2, as far as an agent asks."""

from epoxy.model.errors import InvalidValue, Oversized

MAX_REPLY_BYTES = 1 << 20
"""INFO of everything has some 10 KiB."""

Reply = bytes | int | None | list["Reply"] | Exception


class ServerError(Exception):
    """An error the server answered with."""


class Incomplete(Exception):
    """More bytes are needed."""


class ReplyReader:
    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[Reply]:
        self._buffer += data
        replies: list[Reply] = []
        at = 0
        while at < len(self._buffer):
            try:
                reply, at = self._read(at)
            except Incomplete:
                break
            replies.append(reply)
        self._buffer = self._buffer[at:]
        if len(self._buffer) > MAX_REPLY_BYTES:
            raise Oversized(f"a reply of more than {MAX_REPLY_BYTES} bytes")
        return replies

    def _read(self, at: int) -> tuple[Reply, int]:
        end = self._buffer.find(b"\r\n", at)
        if end < 0:
            raise Incomplete
        mark, line, after = self._buffer[at : at + 1], self._buffer[at + 1 : end], end + 2
        match mark:
            case b"+":
                return line, after
            case b"-":
                return ServerError(line.decode("utf-8", "replace")), after
            case b":":
                return int(line), after
            case b"$":
                return self._bulk(int(line), after)
            case b"*":
                return self._array(int(line), after)
            case _:
                raise InvalidValue(f"no reply of RESP2 begins with {mark!r}")

    def _bulk(self, size: int, at: int) -> tuple[Reply, int]:
        if size < 0:
            return None, at
        if len(self._buffer) < at + size + 2:
            raise Incomplete
        return self._buffer[at : at + size], at + size + 2

    def _array(self, count: int, at: int) -> tuple[Reply, int]:
        items: list[Reply] = []
        for _ in range(count):
            item, at = self._read(at)
            items.append(item)
        return items, at
