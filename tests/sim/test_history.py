"""Histories as text, and the weaker promise of optimistic reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy_sim.history import (
    Absent,
    Add,
    Delete,
    Failed,
    Found,
    Immutable,
    Kind,
    Lost,
    Mismatch,
    Missing,
    NotAnInteger,
    Operation,
    Outcome,
    Put,
    Read,
    Reserve,
    Same,
    Touch,
    Unknown,
    Won,
    check_optimistic_read,
    decode_lines,
    encode_lines,
)

KINDS: list[Kind] = [
    Touch(ttl_ms=5, if_version=2),
    Put(value=b"x", if_absent=True, ttl_ms=5),
    Put(value=b"x", keep_expiry=True),
    Reserve(value=b"r"),
    Put(value=b"\x00\xff"),
    Put(value=b"", if_version=0),
    Delete(),
    Delete(if_version=4),
    Put(value=b"x", returning=True),
    Delete(returning=True),
    Add(amount=-3),
    Add(amount=1 << 62, if_version=2, returning=True),
    Read(),
    Read(linearizable=False),
]
OUTCOMES: list[Outcome] = [
    Won(version=1),
    Won(version=1, value=b"-3"),
    Won(version=1, previous=Absent(version=0)),
    Won(version=3, value=b"4", previous=Found(value=b"3", version=2, mutable=True)),
    NotAnInteger(version=4),
    Same(version=2),
    Lost(value=b"x", version=3, mutable=False),
    Lost(value=None, version=3, mutable=True),
    Mismatch(version=5),
    Immutable(version=1),
    Missing(version=0),
    Found(value=b"\xfe", version=7, mutable=True),
    Absent(version=0),
    Failed(),
    Unknown(),
]


def operations() -> st.SearchStrategy[Operation]:
    return st.builds(
        Operation,
        id=st.integers(0, 2**53),
        client=st.text(max_size=5),
        key=st.binary(max_size=5),
        kind=st.sampled_from(KINDS),
        invoked=st.integers(0, 100),
        returned=st.integers(100, 200),
        outcome=st.sampled_from(OUTCOMES),
    )


def operation(kind: Kind, when: tuple[int, int | None], outcome: Outcome, key: bytes = b"k") -> Operation:
    return Operation(id=1, client="c", key=key, kind=kind, invoked=when[0], returned=when[1], outcome=outcome)


@given(st.lists(operations(), max_size=5))
def test_a_history_survives_as_json_lines(history: list[Operation]) -> None:
    lines = encode_lines(history)
    assert lines.count(b"\n") == len(history)
    assert decode_lines(lines) == history


def test_every_kind_and_outcome_survives() -> None:
    history = [operation(kind, (1, 2), outcome) for kind in KINDS for outcome in OUTCOMES]
    history.append(operation(Delete(), (3, None), Unknown()))
    assert decode_lines(encode_lines(history)) == history


def test_the_text_is_stable() -> None:
    line = encode_lines([operation(Put(value=b"hi", if_version=2), (5, 9), Won(version=3))])
    assert line == (
        b'{"id":1,"client":"c","key":"aw==","kind":{"type":"put","value":"aGk=","if_version":2},'
        b'"invoked":5,"returned":9,"outcome":{"type":"won","version":3}}\n'
    )


def test_pending_operations_may_leave_out_what_is_not_known_yet() -> None:
    line = b'\n{"id":1,"client":"c","key":"aw==","kind":{"type":"read"},"invoked":5}\n\n'
    assert decode_lines(line) == [operation(Read(), (5, None), Unknown())]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b'{"id":1}',
        b'{"id":1,"client":"c","key":"aw==","kind":{"type":"steal"},"invoked":5}',
        b'{"id":1,"client":"c","key":"aw==","kind":{"type":"read"},"invoked":5,"extra":0}',
        b'{"id":1,"client":"c","key":"aw==","kind":{"type":"read","extra":0},"invoked":5}',
        b'{"id":1,"client":"c","key":"aw==","kind":{"type":"read"},"invoked":5,"returned":4}',
    ],
)
def test_what_is_no_operation_is_refused_with_its_line(line: bytes) -> None:
    good = encode_lines([operation(Read(), (1, 2), Absent(version=0))])
    with pytest.raises(ValueError, match="line 2"):
        decode_lines(good + line)


def test_an_operation_cannot_return_before_its_invocation() -> None:
    with pytest.raises(ValueError, match="returned at 4"):
        operation(Read(), (5, 4), Absent(version=0))


def test_an_operation_cannot_have_an_answer_without_a_return() -> None:
    with pytest.raises(ValueError, match="has not returned"):
        operation(Read(), (5, None), Absent(version=0))


def test_operations_read_well() -> None:
    assert str(operation(Put(value=b"x", if_version=3), (1, 2), Mismatch(version=4))) == (
        "#1 c put b'x' if_version=3 [1, 2] -> mismatch version=4"
    )
    assert str(operation(Delete(), (1, None), Unknown())) == "#1 c delete [1, ...] -> unknown"
    previous = Found(value=b"3", version=2, mutable=True)
    assert str(operation(Add(amount=1, returning=True), (1, 2), Won(version=3, value=b"4", previous=previous))) == (
        "#1 c add amount=1 returning=True [1, 2] -> won version=3 b'4' previous=(found b'3' version=2 mutable=True)"
    )


def optimistic(found: Outcome, when: tuple[int, int | None] = (10, 20)) -> Operation:
    return operation(Read(linearizable=False), when, found)


MUTABLE_A1 = Found(value=b"a", version=1, mutable=True)
FIXED_A1 = Found(value=b"a", version=1, mutable=False)
PUT_A1 = operation(Put(value=b"a"), (0, 1), Won(version=1))
PUT_B2 = operation(Put(value=b"b"), (2, 3), Won(version=2))
RESERVED_A1 = operation(Reserve(value=b"a"), (0, 1), Won(version=1))
RESERVED_A3 = operation(Reserve(value=b"a"), (0, 1), Won(version=3))

HONEST: dict[str, tuple[list[Operation], Operation]] = {
    "the latest": ([PUT_A1], optimistic(MUTABLE_A1)),
    "stale is allowed": ([PUT_A1, PUT_B2], optimistic(MUTABLE_A1)),
    "absent is allowed": ([RESERVED_A1], optimistic(Absent(version=0))),
    "a write under way": ([operation(Put(value=b"a"), (15, None), Unknown())], optimistic(MUTABLE_A1)),
    "a write invoked as the read returned": (
        [operation(Put(value=b"a"), (20, 30), Won(version=1))],
        optimistic(MUTABLE_A1),
    ),
    "the one value": ([RESERVED_A1, operation(Read(), (2, 3), FIXED_A1)], optimistic(FIXED_A1)),
    "mutable once, immutable later": (
        [PUT_A1, operation(Delete(), (2, 3), Won(version=2)), RESERVED_A3],
        optimistic(MUTABLE_A1),
    ),
    "a failed read": ([], optimistic(Unknown())),
    "the number an add made": (
        [operation(Add(amount=1), (0, 1), Won(version=1, value=b"1"))],
        optimistic(Found(value=b"1", version=1, mutable=True)),
    ),
    "a number that an add may have made": (
        [operation(Add(amount=1), (0, 1), Unknown())],
        optimistic(Found(value=b"7", version=3, mutable=True)),
    ),
}

INVENTED: dict[str, tuple[list[Operation], Operation]] = {
    "never written": ([], optimistic(MUTABLE_A1)),
    "another key": ([operation(Put(value=b"a"), (0, 1), Won(version=1), key=b"other")], optimistic(MUTABLE_A1)),
    "another value": ([PUT_B2], optimistic(MUTABLE_A1)),
    "another number": (
        [operation(Add(amount=1), (0, 1), Won(version=1, value=b"1"))],
        optimistic(Found(value=b"2", version=1, mutable=True)),
    ),
    "an add that was refused": (
        [operation(Add(amount=1), (0, 1), NotAnInteger(version=1))],
        optimistic(Found(value=b"2", version=1, mutable=True)),
    ),
    "another version": ([PUT_A1], optimistic(Found(value=b"a", version=2, mutable=True))),
    "the write failed": ([operation(Put(value=b"a"), (0, 1), Failed())], optimistic(MUTABLE_A1)),
    "the write lost": (
        [operation(Reserve(value=b"a"), (0, 1), Lost(value=b"b", version=1, mutable=False))],
        optimistic(FIXED_A1),
    ),
    "written only afterwards": ([operation(Put(value=b"a"), (21, 30), Won(version=1))], optimistic(MUTABLE_A1)),
    "a put is not immutable": ([PUT_A1], optimistic(FIXED_A1)),
    "a reserve is not mutable": ([RESERVED_A1], optimistic(MUTABLE_A1)),
    "another value won": (
        [operation(Reserve(value=b"b"), (0, 1), Won(version=1)), operation(Reserve(value=b"a"), (0, 1), Unknown())],
        optimistic(FIXED_A1),
    ),
    "a loser met another value": (
        [
            operation(Reserve(value=b"a"), (0, 1), Unknown()),
            operation(Reserve(value=b"c"), (0, 1), Lost(value=b"b", version=1, mutable=False)),
        ],
        optimistic(FIXED_A1),
    ),
    "another read found another value": (
        [operation(Reserve(value=b"a"), (0, 1), Unknown()), optimistic(Found(value=b"b", version=1, mutable=False))],
        optimistic(FIXED_A1),
    ),
    "overwritten although immutable": (
        [RESERVED_A1, PUT_B2],
        optimistic(Found(value=b"b", version=2, mutable=True)),
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_optimistic_read_may_be_stale(name: str) -> None:
    history, read = HONEST[name]
    assert check_optimistic_read([*history, read], read) is None


@pytest.mark.parametrize("name", INVENTED)
def test_an_optimistic_read_is_never_invented(name: str) -> None:
    history, read = INVENTED[name]
    complaint = check_optimistic_read([*history, read], read)
    assert complaint is not None
    assert str(read) in complaint
