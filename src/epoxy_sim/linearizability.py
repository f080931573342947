"""Is there one order of the operations on a key that explains every answer and respects real time?

The search is Wing and Gong's ("Testing and verifying concurrent objects", 1993) with Lowe's memory of configurations
("Testing for linearizability", 2017): a configuration, which operations have been placed and what the register
then holds, is entered once. Keys are judged one by one, since linearizability is local (Herlihy and Wing, 1990).

An operation of unknown outcome may be placed anywhere after its invocation or left out; the search ends well as soon as
every answered operation is placed. Three facts about this register keep the search narrow without losing an answer:

1. An operation that fits and changes nothing is placed at once. In any completion it could be moved to the front.
2. Every change raises the version by one, and nearly every answer names its version. A configuration past the version
   that a waiting operation has seen is a dead end: writes with answers leave no choice, unknown ones fill gaps only.
3. Of unknown writes with the same effect as far as any answer shows, one is tried: first those that expect this very
   version, which have no other use, then by invocation. An order that uses another can be rewritten to use that one.
   A number also shows in the sum that later adds make of it, so one that is near to a number in an answer is not
   like others.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from epoxy_sim.history import (
    Add,
    Delete,
    Failed,
    Found,
    Kind,
    Lost,
    Mismatch,
    Operation,
    Put,
    Read,
    Reserve,
    Same,
    Touch,
    Unknown,
    Won,
    describe,
)
from epoxy_sim.register import MOST, EndsAt, Register, agrees, answer, number_in

# Measured: a good history explores about one configuration for each write, a bad one of 1,000 operations, a tenth of
# them unknown, 3,000 to 20,000. This is several times that: a few seconds and some tens of megabytes. With adds, and a
# third unknown, a bad one is undecided.
DEFAULT_LIMIT = 100_000

# The part of a long prefix that an explanation shows: what fits on a screen beside the operations that are stuck.
_SHOWN = 12


class Linearizable(msgspec.Struct, frozen=True, kw_only=True):
    """`order` explains every answer; it contains those unknown operations that the answers need."""

    key: bytes
    order: tuple[Operation, ...]
    explored: int

    def explain(self) -> str:
        lines = [f"key {self.key!r} is linearizable ({self.explored} configurations explored), in this order:"]
        return "\n".join(lines + [f"  {operation}" for operation in self.order])


class NotLinearizable(msgspec.Struct, frozen=True, kw_only=True):
    """No order exists. The longest prefix that the search placed, the register after it, and the operations stuck."""

    key: bytes
    prefix: tuple[Operation, ...]
    register: Register
    stuck: tuple[Operation, ...]
    unused: tuple[Operation, ...]
    explored: int

    def explain(self) -> str:
        lines = [f"key {self.key!r} is NOT linearizable ({self.explored} configurations explored)"]
        lines += ["longest explained prefix:", *self._prefix()]
        lines += [f"the register then: {self.register}", "none of these can follow:", *self._stuck()]
        if self.unused:
            lines += ["of unknown outcome and unused:", *(f"  {operation}" for operation in self.unused)]
        return "\n".join(lines)

    def _stuck(self) -> Iterator[str]:
        for operation in self.stuck:
            _, truth = answer(self.register, operation.kind)
            yield f"  {operation}"
            yield f"    the register would say: {describe(truth)}"

    def _prefix(self) -> Iterator[str]:
        hidden = max(0, len(self.prefix) - _SHOWN)
        if hidden:
            yield f"  ({hidden} earlier ones)"
        yield from (f"  {operation}" for operation in self.prefix[hidden:])


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """The limit was reached first. Neither good nor bad: a caller must not take it for good."""

    key: bytes
    explored: int

    def explain(self) -> str:
        return f"key {self.key!r} is undecided after {self.explored} configurations"


Verdict: TypeAlias = Linearizable | NotLinearizable | Undecided


Expiries: TypeAlias = Mapping[int, EndsAt | None]
"""Which expiry versions of a key were seen to have, None: none."""


def check(
    history: Iterable[Operation], *, limit: int = DEFAULT_LIMIT, expiries: Mapping[bytes, Expiries] | None = None
) -> list[Verdict]:
    """A verdict for each key, in the order in which the history first names them. `expiries`: what was seen of them, by
    key; an order must explain these, too."""
    by_key: dict[bytes, list[Operation]] = {}
    for operation in history:
        by_key.setdefault(operation.key, []).append(operation)
    seen = expiries or {}
    return [_Search(key, operations, seen.get(key, {})).run(limit) for key, operations in by_key.items()]


class _Trail(NamedTuple):
    """The placed operations, last first. Trails share their tails: a step costs the same in a long history."""

    before: "_Trail | None"
    operation: Operation


class _Configuration(NamedTuple):
    """Bit sets of the operations not placed yet, by index in order of invocation, and what the register holds."""

    answered: int
    unknown: int
    register: Register
    trail: _Trail | None


class _Settled(NamedTuple):
    """A configuration in which every operation that fits and changes nothing is placed.

    `steps` are the answered writes that fit next. Nothing invoked after `deadline` may come next, since an operation
    that returned by then is still waiting.
    """

    configuration: _Configuration
    steps: list[_Configuration]
    waiting: list[Operation]
    deadline: int


class _Search:
    def __init__(self, key: bytes, operations: Iterable[Operation], expiries: Expiries) -> None:
        self._key = key
        self._expiries = expiries
        self._answered: list[Operation] = []
        self._returned: list[int] = []
        self._unknown: list[Operation] = []
        for operation in sorted(operations, key=lambda operation: operation.invoked):
            self._admit(operation)
        self._end = max(self._returned, default=0)
        self._needs = _needs(self._answered)
        self._expecting = _expecting(self._unknown)
        self._likeness = _likenesses(self._answered, self._unknown)

    def _admit(self, operation: Operation) -> None:
        """Keep what can be evidence: failures have no effect, and optimistic reads promise nothing here."""
        kind, outcome = operation.kind, operation.outcome
        if type(outcome) is Failed or (type(kind) is Read and not kind.linearizable):
            return
        if type(outcome) is not Unknown:
            assert operation.returned is not None
            self._answered.append(operation)
            self._returned.append(operation.returned)
        elif type(kind) is not Read:
            self._unknown.append(operation)

    def run(self, limit: int) -> Verdict:
        start = _Configuration(_full(self._answered), _full(self._unknown), Register(), None)
        stack, entered = [start], {start[:3]}
        explored, deepest = 0, None
        while stack:
            if explored == limit:
                return Undecided(key=self._key, explored=explored)
            explored += 1
            settled = self._settle(stack.pop())
            here = settled.configuration
            if not here.answered:
                return Linearizable(key=self._key, order=_unwind(here.trail), explored=explored)
            if deepest is None or here.answered.bit_count() < deepest.configuration.answered.bit_count():
                deepest = settled
            for step in self._steps(settled):
                if step[:3] not in entered and self._ends_so(step.register):
                    entered.add(step[:3])
                    stack.append(step)
        assert deepest is not None
        return self._refutation(deepest, explored)

    def _settle(self, start: _Configuration) -> _Settled:
        """Fact 1. One pass is enough: what it skips does not fit, and a later placement cannot change that."""
        answered, unknown, register, trail = start
        deadline, writes, waiting = self._end, [], []
        rest = answered
        while rest:
            bit = rest & -rest
            index = bit.bit_length() - 1
            operation = self._answered[index]
            if operation.invoked > deadline:
                break
            rest ^= bit
            after, truth = answer(register, operation.kind)
            fits = agrees(operation, register, truth)
            if fits and after is register:
                answered ^= bit
                trail = _Trail(trail, operation)
                continue
            if fits:
                writes.append((bit, after, operation))
            waiting.append(operation)
            deadline = min(deadline, self._returned[index])
        here = _Configuration(answered, unknown, register, trail)
        steps = [_Configuration(answered ^ bit, unknown, after, _Trail(trail, write)) for bit, after, write in writes]
        return _Settled(here, steps, waiting, deadline)

    def _steps(self, settled: _Settled) -> Iterator[_Configuration]:
        """Answered writes come last, that is on top of the stack: they leave less to guess."""
        here = settled.configuration
        if self._passed(here):
            return
        if not here.answered & self._needs.get(here.register.version, 0):
            yield from self._guesses(here, settled.deadline)
        yield from settled.steps

    def _passed(self, here: _Configuration) -> int:
        """Fact 2: the waiting operations that saw the version before this one. Older ones were refused a step ago."""
        return here.answered & self._needs.get(here.register.version - 1, 0)

    def _ends_so(self, register: Register) -> bool:
        """Whether this version has the expiry that was seen of it."""
        return self._expiries.get(register.version, register.expiry) == register.expiry

    def _guesses(self, here: _Configuration, deadline: int) -> Iterator[_Configuration]:
        now_or_never = here.unknown & self._expecting.get(here.register.version, 0)
        tried: set[object] = set()
        for usable in (now_or_never, here.unknown & self._expecting.get(None, 0)):
            for index in _bits(usable):
                operation, likeness = self._unknown[index], self._likeness[index]
                if operation.invoked > deadline:
                    break
                if likeness in tried:
                    continue
                tried.add(likeness)
                after, _ = answer(here.register, operation.kind)
                if after is not here.register:
                    left = here.unknown & ~now_or_never & ~(1 << index)
                    yield _Configuration(here.answered, left, after, _Trail(here.trail, operation))

    def _refutation(self, deepest: _Settled, explored: int) -> NotLinearizable:
        here = deepest.configuration
        passed = [self._answered[index] for index in _bits(self._passed(here))]
        return NotLinearizable(
            key=self._key,
            prefix=_unwind(here.trail),
            register=here.register,
            stuck=tuple(passed or deepest.waiting),
            unused=tuple(self._unknown[index] for index in _bits(here.unknown)),
            explored=explored,
        )


def _likenesses(answered: list[Operation], unknown: list[Operation]) -> list[object]:
    """Fact 3: equal for writes whose effect no answer tells apart."""
    if not unknown:
        return []
    shown = _Shown(answered, unknown)
    return [shown.likeness(operation.kind) for operation in unknown]


class _Shown:
    """The values that answers tell. Between a put and the first answer that tells of it there are unknown adds alone,
    and the add of that answer, so its number is no farther from the one told than all those together."""

    def __init__(self, answered: list[Operation], unknown: list[Operation]) -> None:
        self._values = {value for operation in answered for value in _seen(operation)}
        self._numbers = sorted(number for value in self._values if (number := number_in(value)) is not None)
        amounts = [abs(operation.kind.amount) for operation in answered if isinstance(operation.kind, Add)]
        unsure = [abs(operation.kind.amount) for operation in unknown if isinstance(operation.kind, Add)]
        self._adds_up = bool(amounts or unsure)
        self._reach = sum(unsure) + max(amounts, default=0)

    def likeness(self, kind: Kind) -> object:
        if isinstance(kind, Add):
            return Add, kind.amount, kind.ttl_ms
        if isinstance(kind, Put):
            return Put, self._shown(kind.value), kind.if_absent, kind.ttl_ms, kind.keep_expiry, kind.session != b""
        if isinstance(kind, Reserve):
            return Reserve, self._shown(kind.value)
        return (Touch, kind.ttl_ms) if isinstance(kind, Touch) else type(kind)

    def _shown(self, value: bytes) -> bytes | bool:
        """The value, if an answer tells it apart from others; or else whether it is a number."""
        if value in self._values:
            return value
        number = number_in(value) if self._adds_up else None
        return value if number is not None and self._may_show(number) else number is not None

    def _may_show(self, number: int) -> bool:
        """Or be so large that a sum overflows."""
        at = bisect_left(self._numbers, number - self._reach)
        is_near = at < len(self._numbers) and self._numbers[at] <= number + self._reach
        return is_near or abs(number) + self._reach >= MOST


def _seen(operation: Operation) -> Iterator[bytes]:
    outcome = operation.outcome
    if isinstance(outcome, Won) and isinstance(outcome.previous, Found):
        yield outcome.previous.value
    if isinstance(outcome, Found | Lost | Won) and outcome.value is not None:
        yield outcome.value
    if isinstance(outcome, Same) and isinstance(operation.kind, Reserve):
        yield operation.kind.value


def _needs(answered: list[Operation]) -> dict[int, int]:
    """For each version, the operations whose answer is true at that version only."""
    needs: dict[int, int] = {}
    for index, operation in enumerate(answered):
        outcome = operation.outcome
        if isinstance(outcome, Mismatch | Failed | Unknown):
            continue
        version = outcome.version - (type(outcome) is Won)
        needs[version] = needs.get(version, 0) | 1 << index
    return needs


def _expecting(unknown: list[Operation]) -> dict[int | None, int]:
    """For each `if_version`, and None for no condition, the unknown writes that have it."""
    expecting: dict[int | None, int] = {}
    for index, operation in enumerate(unknown):
        expected = operation.kind.if_version if isinstance(operation.kind, Put | Delete | Add | Touch) else None
        expecting[expected] = expecting.get(expected, 0) | 1 << index
    return expecting


def _full(operations: list[Operation]) -> int:
    return (1 << len(operations)) - 1


def _bits(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit


def _unwind(trail: _Trail | None) -> tuple[Operation, ...]:
    placed = []
    while trail is not None:
        placed.append(trail.operation)
        trail = trail.before
    return tuple(reversed(placed))
