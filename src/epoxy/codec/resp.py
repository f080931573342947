"""RESP, the protocol of Redis clients: replies to bytes, bytes to commands.

Replies are encoded by small functions that nest: `array([bulk(b"a"), integer(1)])`. Where RESP2 and RESP3 differ, the
function takes the protocol, 2 or 3.

A command is an array of bulk strings and nothing else: no inline commands, no other types, no nesting. The reader is
strict and looks at every announced size before it waits for, or sets aside, a single byte for it.
"""

from collections.abc import Iterable, Sequence

from epoxy.codec.resp_limits import SHORT_ARGUMENTS, SHORT_BYTES
from epoxy.codec.resp_limits import ReaderLimits as ReaderLimits
from epoxy.model.errors import CodecError, InvalidValue, Oversized

CRLF = b"\r\n"

MAX_HEADER_BYTES = 12
"""A mark and a number of up to ten digits; every limit is far below that."""

COUNTS = {b"*%d" % count: count for count in range(1, SHORT_ARGUMENTS + 1)}
SIZES = {b"$%d" % size: size for size in range(SHORT_BYTES + 1)}

OK = b"+OK\r\n"


def simple(text: str) -> bytes:
    return b"+%b\r\n" % one_line(text)


def error(text: str) -> bytes:
    """By custom the first word is a code in capitals."""
    return b"-%b\r\n" % one_line(text)


def one_line(text: str) -> bytes:
    """What clients and keys put into a message must not end it early."""
    return "".join(char if char.isprintable() else "?" for char in text).encode()


def integer(number: int) -> bytes:
    return b":%d\r\n" % number


def bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)


def bulk_text(text: str) -> bytes:
    return bulk(text.encode())


def null(protocol: int) -> bytes:
    return b"_\r\n" if protocol == 3 else b"$-1\r\n"


def maybe_bulk(value: bytes | None, protocol: int) -> bytes:
    return bulk(value) if value is not None else null(protocol)


def array(items: Sequence[bytes]) -> bytes:
    return b"*%d\r\n%b" % (len(items), b"".join(items))


def mapping(pairs: Iterable[tuple[bytes, bytes]], protocol: int) -> bytes:
    """RESP2 has no maps: names and values take turns in an array."""
    flat = [item for pair in pairs for item in pair]
    return b"%%%d\r\n%b" % (len(flat) // 2, b"".join(flat)) if protocol == 3 else array(flat)


def verbatim(text: str, protocol: int) -> bytes:
    """Text for people to read as it is."""
    encoded = text.encode()
    return b"=%d\r\ntxt:%b\r\n" % (len(encoded) + 4, encoded) if protocol == 3 else bulk(encoded)


class CommandReader:
    """Commands out of a stream that is cut anywhere. After a `fault` nothing more is read: where the next command would
    begin, nobody knows.

    Invariants: 1. what is held back is at most one command within the limits, and the piece that exceeded them.
    2. `_missing` arguments are still to come for the command begun in `_arguments`.
    """

    def __init__(self, limits: ReaderLimits) -> None:
        self.limits = limits
        self.fault: CodecError | None = None
        self._pieces: list[bytes] = []
        self._held = 0
        self._needed = 0
        self._arguments: list[bytes] = []
        self._missing = 0
        self._spent = 0

    @property
    def at_rest(self) -> bool:
        """Between two commands: what comes next begins one."""
        return not (self._held or self._missing or self.fault)

    def feed(self, data: bytes) -> list[list[bytes]]:
        """The commands that `data` completes."""
        self._pieces.append(data)
        self._held += len(data)
        if self._held < self._needed or self.fault is not None:
            return []
        buffer = data if len(self._pieces) == 1 else b"".join(self._pieces)
        commands: list[list[bytes]] = []
        position = skim(buffer, commands) if not self._missing else 0
        try:
            position = self._read(buffer, position, commands)
        except CodecError as fault:
            self.fault, position = fault, len(buffer)
        self._pieces = [buffer[position:]] if position < len(buffer) else []
        self._held = len(buffer) - position
        return commands

    def _read(self, buffer: bytes, position: int, commands: list[list[bytes]]) -> int:
        """As far as the bytes go; from the position returned it goes on when there are more."""
        self._needed = 0
        while True:
            if not self._missing:
                position = past_blank_lines(buffer, position)
                if buffer[position:] == b"\r":
                    return position
            header = read_header(buffer, position, b"$" if self._missing else b"*")
            if header is None:
                return position
            number, start = header
            if not self._missing:
                self._begin(number)
                position = start
                continue
            self._check_size(number)
            end = start + number
            if end + 2 > len(buffer):
                self._needed = end + 2 - position
                return position
            if buffer[end : end + 2] != CRLF:
                raise InvalidValue(f"an argument announced with {number} bytes does not end there")
            self._add(buffer[start:end], commands)
            position = end + 2

    def _begin(self, count: int) -> None:
        """An array of nothing is no command, and is passed over in silence as Redis does."""
        if count > self.limits.arguments:
            raise Oversized(f"{count} arguments, the limit is {self.limits.arguments}")
        self._missing, self._arguments, self._spent = count, [], 0

    def _check_size(self, size: int) -> None:
        if size > self.limits.argument_bytes:
            raise Oversized(f"an argument of {size} bytes, the limit is {self.limits.argument_bytes}")
        if self._spent + size > self.limits.command_bytes:
            raise Oversized(f"a command of more than {self.limits.command_bytes} bytes")

    def _add(self, argument: bytes, commands: list[list[bytes]]) -> None:
        self._arguments.append(argument)
        self._spent += len(argument)
        self._missing -= 1
        if not self._missing:
            commands.append(self._arguments)
            self._arguments = []


def past_blank_lines(buffer: bytes, position: int) -> int:
    """Between commands an empty line is no command either: `redis-cli --pipe` sends one before its last word."""
    while buffer.startswith(CRLF, position):
        position += len(CRLF)
    return position


def read_header(buffer: bytes, position: int, mark: bytes) -> tuple[int, int] | None:
    """(number, position behind it), or None if the line is not complete."""
    if position >= len(buffer):
        return None
    if (found := buffer[position : position + 1]) != mark:
        raise InvalidValue(f"expected '{mark.decode()}', got {found!r}")
    end = buffer.find(CRLF, position, position + MAX_HEADER_BYTES + 2)
    if end < 0:
        if len(buffer) - position >= MAX_HEADER_BYTES + 2:
            raise InvalidValue(f"no length of up to ten digits after '{mark.decode()}'")
        return None
    digits = buffer[position + 1 : end]
    if not digits.isdigit():
        raise InvalidValue(f"{digits!r} is no length")
    return int(digits), end + 2


def skim(buffer: bytes, commands: list[list[bytes]]) -> int:
    """Take whole commands of few, short arguments off the front, which is what clients nearly always send, several
    times faster than byte by byte. Every announced size is held against the argument, so an argument that contains a
    line end is noticed, and left with all that follows to the careful reader. A command with one argument, a GET most
    likely, has a shorter way still."""
    lines = buffer.split(CRLF)
    last = len(lines) - 1
    at = 0
    while at < last:
        if lines[at] == b"*2" and at + 5 <= last:
            _, name_size, name, size, argument = lines[at : at + 5]
            if SIZES.get(name_size) != len(name) or SIZES.get(size) != len(argument):
                break
            commands.append([name, argument])
            at += 5
            continue
        end = at + 1 + 2 * COUNTS.get(lines[at], last)
        arguments = lines[at + 2 : end : 2]
        if end > last or [SIZES.get(size) for size in lines[at + 1 : end : 2]] != [len(each) for each in arguments]:
            break
        commands.append(arguments)
        at = end
    return len(buffer) - len(lines[last]) if at == last else sum(map(len, lines[:at])) + 2 * at
