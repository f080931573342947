"""RESP, the protocol of Redis clients: replies to bytes, bytes to commands.

Replies are encoded by small functions that nest: `array([bulk(b"a"), integer(1)])`. Where RESP2 and RESP3 differ, the
function takes the protocol, 2 or 3.

A command is an array of bulk strings and nothing else: no other types, no nesting. It may also be inline, a line of
plain text, because probes and people send them so. The reader is strict, and checks every announced size before
it waits for or stores any byte. A command beyond the limits is skipped, if they allow for that: its client gets an
error, and the connection stays open.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from epoxy.codec.resp_limits import SHORT_ARGUMENTS, SHORT_BYTES
from epoxy.codec.resp_limits import ReaderLimits as ReaderLimits
from epoxy.model.errors import CodecError, InvalidValue, Oversized

CRLF = b"\r\n"

MAX_HEADER_BYTES = 12
"""A mark and a number of up to ten digits; every limit is far below that."""

INLINE = re.compile(rb"[A-Za-z][A-Za-z.]*")
"""The name of an inline command. A header of HTTP has a colon after its own."""

HTTP_VERSION = b"HTTP/"
"""The last word of the first line of an HTTP request begins so, whatever its method: a web page that makes a browser
send one to this port, also to a name that now leads here, ends the connection before anything is done."""

MAX_INLINE_BYTES = 1024

MAX_PASSED_ARGUMENTS = 1 << 20
"""Of a command that is skipped; as many as Redis takes."""

OVERSIZED: Final = bytes(bytearray(b"oversized"))
"""The first word of the placeholder for a skipped command; the second says why. Compared by identity."""

NOTHING = re.compile(rb"(?:\r?\n|\*0{1,10}\r\n)*")
"""Between commands: empty lines, as `redis-cli --pipe` sends before its last command, and empty arrays."""

COUNTS = {b"*%d" % count: count for count in range(1, SHORT_ARGUMENTS + 1)}
SIZES = {b"$%d" % size: size for size in range(SHORT_BYTES + 1)}

OK = b"+OK\r\n"


def simple(text: str) -> bytes:
    return b"+%b\r\n" % one_line(text)


def error(text: str) -> bytes:
    """By custom the first word is a code in capitals."""
    return b"-%b\r\n" % one_line(text)


def one_line(text: str) -> bytes:
    """Text of clients and keys must not end the line."""
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
    """RESP2 has no maps: an array of names and values in turn."""
    flat = [item for pair in pairs for item in pair]
    return b"%%%d\r\n%b" % (len(flat) // 2, b"".join(flat)) if protocol == 3 else array(flat)


def verbatim(text: str, protocol: int) -> bytes:
    """Multi-line text."""
    encoded = text.encode()
    return b"=%d\r\ntxt:%b\r\n" % (len(encoded) + 4, encoded) if protocol == 3 else bulk(encoded)


class CommandReader:
    """Commands from a stream that arrives in any pieces. After a `fault` nothing more is read: the beginning of the
    next command is unknown.

    Invariants: 1. What is buffered is at most one command within the limits, and the piece that exceeded them.
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
        self._excess = ""
        self._to_skip = 0

    @property
    def held(self) -> int:
        """Bytes of a command that is not complete."""
        return self._held + self._spent if self._missing else self._held

    @property
    def at_rest(self) -> bool:
        """Between two commands."""
        return not (self._held or self._missing or self._to_skip or self.fault)

    def feed(self, data: bytes) -> list[list[bytes]]:
        """The commands that `data` completes."""
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        self._pieces.append(data)
        self._held += len(data)
        if self._held < self._needed or self.fault is not None:
            return []
        buffer = data if len(self._pieces) == 1 else b"".join(self._pieces)
        commands: list[list[bytes]] = []
        position = 0
        if not self._missing and buffer.startswith(b"*") and not buffer.startswith(b"*0"):
            position = skim(buffer, commands)
        try:
            position = self._read(buffer, position, commands)
        except CodecError as fault:
            self.fault, position = fault, len(buffer)
        self._pieces = [buffer[position:]] if position < len(buffer) else []
        self._held = len(buffer) - position
        return commands

    def _read(self, buffer: bytes, position: int, commands: list[list[bytes]]) -> int:
        """Reads as far as the bytes go, and returns where to continue when there are more."""
        self._needed = 0
        while True:
            if not self._missing:
                position = past_nothing(buffer, position)
                if not buffer.startswith(b"*", position):
                    inline = read_inline(buffer, position)
                    if inline is None:
                        return position
                    position = inline[1]
                    commands.append(inline[0])
                    continue
            header = read_header(buffer, position, b"$" if self._missing else b"*")
            if header is None:
                return position
            number, start = header
            if not self._missing:
                self._begin(number)
                position = start
                continue
            end = start + number
            if self._is_too_much(number):
                self._add(b"", commands)
                self._to_skip = max(0, end + 2 - len(buffer))
                position = min(end + 2, len(buffer))
                continue
            if end + 2 > len(buffer):
                self._needed = end + 2 - position
                return position
            if buffer[end : end + 2] != CRLF:
                raise InvalidValue(f"an argument announced with {number} bytes does not end there")
            self._add(buffer[start:end], commands)
            position = end + 2

    def _begin(self, count: int) -> None:
        self._excess = ""
        if count > self.limits.arguments:
            self._exceed(f"{count} arguments, the limit is {self.limits.arguments}", count > MAX_PASSED_ARGUMENTS)
        self._missing, self._arguments, self._spent = count, [], 0

    def _is_too_much(self, size: int) -> bool:
        """Whether this argument, or one before it, exceeds the limits: then it is not kept."""
        if size > self.limits.argument_bytes:
            is_fatal = size > self.limits.passed_bytes
            self._exceed(f"an argument of {size} bytes, the limit is {self.limits.argument_bytes}", is_fatal)
        elif self._spent + size > self.limits.command_bytes:
            self._exceed(f"a command of more than {self.limits.command_bytes} bytes", is_fatal=False)
        return bool(self._excess)

    def _exceed(self, excess: str, is_fatal: bool) -> None:
        if is_fatal or not self.limits.passed_bytes:
            raise Oversized(excess)
        self._excess = self._excess or excess

    def _add(self, argument: bytes, commands: list[list[bytes]]) -> None:
        self._missing -= 1
        if not self._excess:
            self._arguments.append(argument)
            self._spent += len(argument)
        if not self._missing:
            commands.append([OVERSIZED, self._excess.encode()] if self._excess else self._arguments)
            self._arguments = []


def past_nothing(buffer: bytes, position: int) -> int:
    found = NOTHING.match(buffer, position)
    assert found is not None, "it may be empty"
    return found.end()


def read_inline(buffer: bytes, position: int) -> tuple[list[bytes], int] | None:
    """(command, position behind it), or None if the line is not complete, and may become a command."""
    end = buffer.find(b"\n", position, position + MAX_INLINE_BYTES)
    line = buffer[position : end if end >= 0 else position + MAX_INLINE_BYTES]
    if not line or line == b"\r":
        return None
    words = line.split()
    if not is_inline(line, words):
        raise InvalidValue(f"expected '*', got {line[:1]!r}")
    if b'"' in line or b"'" in line:
        raise InvalidValue("quotes in an inline command are not offered")
    if end < 0:
        if len(line) == MAX_INLINE_BYTES:
            raise Oversized(f"an inline command of more than {MAX_INLINE_BYTES} bytes")
        return None
    if words[-1].upper().startswith(HTTP_VERSION):
        raise InvalidValue("this port speaks RESP, and no HTTP")
    return words, end + 1


def is_inline(line: bytes, words: list[bytes]) -> bool:
    """Whether a line begins with the name of a command, or may do so when more of it has come."""
    return bool(words) and line.startswith(words[0]) and INLINE.fullmatch(words[0]) is not None


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
    """Take whole commands of few, short arguments off the front, which clients nearly always send, several times faster
    than byte by byte. Every announced size is compared with the argument, so an argument that contains a line end is
    noticed, and left with all that follows to the full reader. A command with one argument, mostly GET, has a shorter
    path still."""
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
