"""Whatever clients send, each command gets exactly one reply, and no command meets a bug of ours."""

import asyncio
import random

import hiredis
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from epoxy.api.resp.connection import RespConnection
from epoxy.api.resp.server import RespServer
from epoxy.codec.resp import array, bulk
from epoxy.model.strings import Register, Steps
from epoxy.model.transactions import TxnRefused
from epoxy.model.writes import (
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    Path,
    ReadFailed,
    ReadOutcome,
    Refused,
    Unchanged,
    Write,
)
from epoxy.protocol.strings.evaluation import evaluate
from tests.api.resp.resp_world import FakeNode, committed, found, proposal

NAMES = sorted({command.name.encode() for command in RespServer(FakeNode()).table.values()} - {b"quit"})
WORDS = [
    b"",
    b"0",
    b"1",
    b"-1",
    b"k",
    b"n",
    b"kept",
    b"gone",
    b"big",
    b"*",
    b"[a-",
    b"NX",
    b"GET",
    b"EX",
    b"MATCH",
    b"COUNT",
]
WORDS += [
    b"LIST",
    b"INFO",
    b"DOCS",
    b"SETNAME",
    b"AUTH",
    b"2",
    b"3",
    b"9223372036854775807",
    b"\xff\x00\r\n",
    b"x" * 1025,
]
COMMANDS = st.lists(
    st.tuples(st.sampled_from(NAMES) | st.binary(max_size=5), st.lists(st.sampled_from(WORDS), max_size=4)).map(
        lambda drawn: [drawn[0], *drawn[1]]
    ),
    max_size=25,
)


class Wire:
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def get_extra_info(self, name: str) -> "Wire | None":
        return self if name == "socket" else None

    def get_write_buffer_size(self) -> int:
        return 0

    def setsockopt(self, *_: object) -> None: ...

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def an_outcome(write: Write, dice: random.Random) -> Outcome:
    """One the engine could give to this write."""
    theirs = proposal(b"7", version=9, mutable=False)
    failures: list[Outcome] = [ConsensusFailed(reason="no quorum"), Refused(reason="busy")]
    if not write.mutable:
        return dice.choice(
            [*failures, committed(write.value), ExpectedValueDoesNotMatch(committed=theirs, path=Path.FAST)]
        )
    if write.steps is not None:
        return dice.choice([*failures, after_steps(write.steps)])
    made = write.value if write.amount is None else b"%d" % write.amount
    failures += [ImmutableKey(committed=theirs, path=Path.LOCAL), committed(made, previous=b"old")]
    if write.is_delete:
        failures.append(NothingToDelete(committed=None, path=Path.SLOW))
    if write.amount is not None:
        failures.append(NotAnInteger(committed=proposal(b"word"), path=Path.SLOW, reason="value is not an integer"))
    return dice.choice(failures)


def after_steps(steps: Steps) -> Outcome:
    done = evaluate(steps, Register(value=b"5"))
    if done.changed:
        return replace(committed(done.value), replies=done.replies)
    return Unchanged(committed=proposal(b"5"), path=Path.SLOW, replies=done.replies)


async def settle(node: FakeNode, dice: random.Random) -> None:
    """Answer in any order, until nothing is under way and nothing has begun since."""
    for _ in range(3):
        while node.writes or node.reads or node.txns:
            while node.txns:
                node.txns.popleft()[1](TxnRefused(reason="busy"))
            if node.writes and (not node.reads or dice.random() < 0.5):
                node.writes.rotate(dice.randrange(10))
                write, written = node.writes.popleft()
                written(an_outcome(write, dice))
            elif node.reads:
                node.reads.rotate(dice.randrange(10))
                _, _, read = node.reads.popleft()
                heard: list[ReadOutcome] = [found(None), found(b"41"), ReadFailed(reason="alone")]
                read(dice.choice(heard))
            await asyncio.sleep(0)
        await asyncio.sleep(0)


@given(COMMANDS, st.integers(min_value=0, max_value=1 << 30), st.integers(min_value=1, max_value=200))
def test_one_reply_for_each_command(commands: list[list[bytes]], seed: int, piece: int) -> None:
    data = b"".join(array([bulk(word) for word in command]) for command in commands)

    async def story() -> bytes:
        node, wire, dice = FakeNode(), Wire(), random.Random(seed)
        node.held |= {b"k": proposal(b"5"), b"kept": proposal(b"x", mutable=False), b"gone": proposal(None)}
        connection = RespConnection(RespServer(node))
        connection.connection_made(wire)  # type: ignore[arg-type]
        for begin in range(0, len(data), piece):
            connection.data_received(data[begin : begin + piece])
            if dice.random() < 0.2:
                await settle(node, dice)
        await settle(node, dice)
        return wire.written

    written = asyncio.run(story())
    reader = hiredis.Reader()
    reader.feed(written)
    replies = [reader.gets() for _ in commands]
    assert False not in [reply if isinstance(reply, bool) else None for reply in replies], "a reply is missing"
    assert reader.gets() is False, "a reply too many"
    assert b"internal error" not in written
