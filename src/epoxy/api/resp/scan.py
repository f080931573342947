"""SCAN and DBSIZE: commands over the keys this node holds, committed and durable, without asking other replicas."""

import asyncio
import hashlib
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from epoxy.api.resp.command import Answer, Arguments, CommandSpec, Handler, RespNode, RespSession, checked_integer
from epoxy.api.resp.turns import in_turns
from epoxy.codec import resp
from epoxy.model.access import Access
from epoxy.model.errors import InvalidRequest
from epoxy.model.records import Proposal

DEFAULT_COUNT = 10
MAX_COUNT = 512
"""Keys read in one call: a few milliseconds of the event loop. COUNT is a hint, so a greater one is cut down."""

MAX_PATTERN_BYTES = 128
"""A pattern is tried on every key of a page, and the time for one key grows with its length times this."""

MAX_CURSORS = 10_000
"""Scans that may be under way; each costs the memory of one key."""

CURSOR_BYTES = 6
"""Clients parse a cursor as a number, and some of them are exact only up to 53 bits."""

COUNTED_AT_ONCE = 512
MAX_COUNTED = 200_000
"""Rows that DBSIZE reads in a turn of the event loop, about a millisecond's work, and altogether, about half a
second's. A key has one row, or two after a contended write."""


MAX_LISTED = 10_000
"""Keys that one KEYS looks at: some ten milliseconds of the event loop, in turns, and a megabyte of reply."""


class Cursors:
    """Where scans go on. A cursor must be a number and the position is a key, so the node keeps a table, and drops the
    least recently used entry first. One position always has the same number, so repeated scans take no more room."""

    def __init__(self, limit: int = MAX_CURSORS) -> None:
        self._limit = limit
        self._secret = secrets.token_bytes(16)
        self._places: OrderedDict[int, bytes] = OrderedDict()

    def number(self, place: bytes) -> int:
        digest = hashlib.blake2b(place, digest_size=CURSOR_BYTES, key=self._secret).digest()
        number = int.from_bytes(digest, "big") or 1
        while self._places.get(number, place) != place:
            number += 1
        self._places[number] = place
        self._places.move_to_end(number)
        if len(self._places) > self._limit:
            self._places.popitem(last=False)
        return number

    def place(self, number: int) -> bytes | None:
        """Where to go on; None: from the start."""
        if number == 0:
            return None
        if number not in self._places:
            raise InvalidRequest("invalid cursor: start again from 0")
        self._places.move_to_end(number)
        return self._places[number]


class Pattern:
    """A glob as Redis has it: * ? [abc] [a-z] [^a] and a backslash before what is meant literally.

    Each star takes as little as it can and never gives anything back (an atomic group), which for globs finds a match
    if there is one, in time that no pattern can blow up. The last star may take anything.
    """

    def __init__(self, glob: bytes) -> None:
        if len(glob) > MAX_PATTERN_BYTES:
            raise InvalidRequest(f"a pattern has at most {MAX_PATTERN_BYTES} bytes, this one {len(glob)}")
        parts: list[list[bytes]] = [[]]
        for token in tokens(glob):
            if token == b"*":
                parts.append([])
            else:
                parts[-1].append(atom(token))
        self.prefix = literal_prefix(glob)
        first, *rest = (b"".join(part) for part in parts)
        if rest:
            *middle, last = rest
            first += b"".join(b"(?>.*?%b)" % part for part in middle) + b".*" + last
        self._regex = re.compile(first, re.DOTALL)

    def matches(self, key: bytes) -> bool:
        return self._regex.fullmatch(key) is not None


TOKEN = re.compile(rb"\\.|\[\^?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
MEMBER = re.compile(rb"(\\.|[^\\])(?:-(\\.|[^\\]))?", re.DOTALL)


def tokens(glob: bytes) -> Iterator[bytes]:
    return (match.group() for match in TOKEN.finditer(glob))


def atom(token: bytes) -> bytes:
    if token == b"?":
        return b"."
    if len(token) > 1 and token.startswith(b"["):
        return one_of(token[1:-1])
    return re.escape(token[1:] if len(token) > 1 else token)


def one_of(inside: bytes) -> bytes:
    """A set of bytes. An empty one matches nothing; an empty one negated, anything."""
    negated = inside.startswith(b"^")
    members = b"".join(b"\\x%02x" % member for member in sorted(set(set_members(inside[negated:]))))
    if not members:
        return b"." if negated else b"(?!)"
    return b"[%b%b]" % (b"^" if negated else b"", members)


def set_members(inside: bytes) -> Iterator[int]:
    for low, high in MEMBER.findall(inside):
        first, last = sorted((low[-1], (high or low)[-1]))
        yield from range(first, last + 1)


def literal_prefix(glob: bytes) -> bytes:
    """The bytes that every match begins with: only keys with this prefix are read."""
    prefix = b""
    for token in tokens(glob):
        if token in (b"*", b"?") or token.startswith(b"["):
            break
        prefix += token[-1:]
    return prefix


def scan(cursors: Cursors) -> Handler:
    def run(session: RespSession, arguments: Arguments) -> bytes:
        after = cursors.place(checked_integer(arguments[1]))
        pattern, count, wanted = scan_options(arguments[2:])
        prefixes = readable_prefixes(session, pattern.prefix)
        rows = page(session.node, prefixes, after, count) if wanted else []
        more = bool(rows) and bool(page(session.node, prefixes, rows[-1][0], 1))
        following = cursors.number(rows[-1][0]) if more else 0
        found = [resp.bulk(key) for key, proposal in rows if not proposal.is_tombstone and pattern.matches(key)]
        return resp.array([resp.bulk(b"%d" % following), resp.array(found)])

    return run


class KeyList:
    """KEYS: all that match, read a page at a time; refused if more are held than one reply should walk through."""

    def __init__(self, session: RespSession, pattern: Pattern) -> None:
        self._node = session.node
        self._pattern = pattern
        self._prefixes = readable_prefixes(session, pattern.prefix)
        self._found: list[bytes] = []
        self._rows = 0
        self._answer = session.promise()
        in_turns(session, self._walk(), self._reply, self._answer)

    def _walk(self) -> Iterator[None]:
        after: bytes | None = None
        while self._rows <= MAX_LISTED and (rows := page(self._node, self._prefixes, after, MAX_COUNT)):
            self._rows += len(rows)
            after = rows[-1][0]
            matching = [key for key, each in rows if not each.is_tombstone and self._pattern.matches(key)]
            self._found.extend(map(resp.bulk, matching))
            yield

    def _reply(self) -> None:
        if self._rows > MAX_LISTED:
            self._answer(resp.error(f"ERR KEYS is refused: more than {MAX_LISTED} keys would be looked at; use SCAN"))
        else:
            self._answer(resp.array(self._found))


def keys(session: RespSession, arguments: Arguments) -> None:
    KeyList(session, Pattern(arguments[1]))


def readable_prefixes(session: RespSession, wanted: bytes = b"") -> list[bytes]:
    """Where the keys are that begin with `wanted` and that this client may read: prefixes in order, none of them within
    another."""
    principal = session.principal
    assert principal is not None, "only clients that were let in read"
    granted = principal.grant.prefixes or (b"",)
    both = [max(each, wanted, key=len) for each in granted if each.startswith(wanted) or wanted.startswith(each)]
    prefixes: list[bytes] = []
    for prefix in sorted(both):
        if not prefixes or not prefix.startswith(prefixes[-1]):
            prefixes.append(prefix)
    return prefixes


def page(node: RespNode, prefixes: list[bytes], after: bytes | None, limit: int) -> list[tuple[bytes, Proposal]]:
    """The next keys under the first of these prefixes that has some beyond `after`."""
    for prefix in prefixes:
        rows = node.page(prefix, after, limit)
        if rows:
            return rows
    return []


def scan_options(options: Arguments) -> tuple[Pattern, int, bool]:
    """Pattern, count, and whether keys of the wanted type can exist: all keys are strings."""
    given = dict(zip((name.upper() for name in options[::2]), options[1::2], strict=False))
    if len(options) % 2 or not given.keys() <= {b"MATCH", b"COUNT", b"TYPE"}:
        raise InvalidRequest("syntax error")
    count = checked_integer(given.get(b"COUNT", b"%d" % DEFAULT_COUNT))
    if count < 1:
        raise InvalidRequest("syntax error")
    wanted = given.get(b"TYPE", b"string").lower() == b"string"
    return Pattern(given.get(b"MATCH", b"*")), min(count, MAX_COUNT), wanted


class Count:
    """DBSIZE, shared by all clients that may read the same keys and ask at a time: one count runs, a few rows in each
    turn of the event loop. A client that asks meanwhile waits for the next count, because this one may have passed the
    keys it has written."""

    def __init__(self, prefixes: Sequence[bytes], ended: Callable[[], None]) -> None:
        self._prefixes = prefixes
        self._ended = ended
        self._asked: list[Asked] = []
        self._waiting: list[Asked] = []
        self._left: list[bytes] = []
        self._after: bytes | None = None
        self._looked_at = self._found = 0

    def ask(self, node: RespNode, answer: Answer) -> None:
        self._waiting.append((node, answer))
        if not self._asked:
            self._begin()

    def _begin(self) -> None:
        self._asked, self._waiting = self._waiting, []
        self._after, self._looked_at, self._found = None, 0, 0
        self._left = list(self._prefixes)
        if self._asked:
            self._step()
        else:
            self._ended()

    def _step(self) -> None:
        node, _ = self._asked[0]
        found, self._after = node.count(self._after, COUNTED_AT_ONCE, self._left[0])
        self._looked_at += COUNTED_AT_ONCE
        self._found += found
        if self._after is None:
            del self._left[0]
        if self._left and self._looked_at < MAX_COUNTED:
            asyncio.get_running_loop().call_soon(self._step)
            return
        asked, self._asked = self._asked, []
        for _, answer in asked:
            answer(resp.integer(self._found))
        self._begin()


class Counts:
    """The counts under way, by the prefixes of those who ask."""

    def __init__(self) -> None:
        self._counts: dict[tuple[bytes, ...], Count] = {}

    def ask(self, session: RespSession, _arguments: Arguments) -> None:
        prefixes = tuple(readable_prefixes(session))
        count = self._counts.get(prefixes)
        if count is None:
            count = self._counts[prefixes] = Count(prefixes, partial(self._ended, prefixes))
        count.ask(session.node, session.promise())

    def _ended(self, prefixes: tuple[bytes, ...]) -> None:
        del self._counts[prefixes]


Asked = tuple[RespNode, Answer]


def commands(cursors: Cursors) -> tuple[CommandSpec, ...]:
    return (
        walk("scan", scan(cursors), -2, "Keys this node holds, a page at a time."),
        walk("keys", keys, 2, f"Keys this node holds that match a pattern, among at most {MAX_LISTED}."),
        walk("dbsize", Counts().ask, 1, f"How many keys this node holds, counted up to {MAX_COUNTED} rows."),
    )


def walk(name: str, run: Handler, arity: int, summary: str) -> CommandSpec:
    return CommandSpec(
        name=name, run=run, arity=arity, summary=summary, group="generic", access=Access.READ, alone=True
    )
