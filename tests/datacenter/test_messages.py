"""Every message between nodes comes back as it was sent, and nothing else is read as one."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.codec import wire
from epoxy.datacenter import messages
from epoxy.datacenter.messages import (
    FIRST_ANSWER,
    MAX_MESSAGE_BYTES,
    RECORDS,
    BadMessage,
    ComeToRest,
    CommitNews,
    ForwardedReplies,
    ForwardedRequests,
    GatewayIsHere,
    GatewayLeaves,
    GoOn,
    LinkBeat,
    LinkStates,
    NotOwner,
    OrderedReadAsk,
    OrderedWriteAsk,
    Outgoing,
    PauseRequests,
    PeerAnswered,
    PeerState,
    ReadAsk,
    Received,
    SessionOver,
    TooLong,
    Unanswerable,
    decode,
    decode_frame,
    encode,
    join_messages,
)
from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.strings import Fault, Reply, ScriptEnded, SimpleString, Steps
from epoxy.model.transactions import Add, Done, Executed, Txn, TxnRefused, TxnUnknown, Wrong, WrongEngine
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Path,
    ReadFailed,
    ReadResult,
    Refused,
    Source,
    Unchanged,
    VersionMismatch,
    Write,
)
from epoxy.transport.peers.frames import MAX_FRAME_BYTES
from tests.codec.strategies import (
    keys,
    ordered_values,
    peer_requests,
    peer_responses,
    proposals,
    reasons,
    replies,
    sessions,
    small,
    ttls,
    txns,
    u64s,
    uints,
    values,
)

numbers = st.integers(0, (1 << 63) - 1)
milliseconds = st.floats(0, allow_nan=False)
texts = st.text(max_size=20)
results: st.SearchStrategy[Reply] = st.recursive(
    st.integers(LEAST_INTEGER, MOST_INTEGER)
    | small
    | st.none()
    | st.builds(SimpleString, texts)
    | st.builds(Fault, texts)
    | st.builds(ScriptEnded, texts),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
several = st.lists(results, max_size=3).map(tuple)
commands = st.lists(st.lists(small, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple)
steps = st.builds(Steps, commands=commands, now_ms=uints, seed=u64s)
mutable = st.just(True)
expiries = st.one_of(
    st.just({}),
    st.builds(lambda ttl_ms: {"ttl_ms": ttl_ms}, ttls),
    st.builds(lambda session: {"session": session}, sessions),
    st.just({"keep_expiry": True}),
)
contents = st.one_of(
    st.builds(lambda value: {"value": value}, st.none() | values),
    st.builds(lambda value, version: {"value": value, "if_version": version}, st.none() | values, uints),
    st.builds(lambda amount: {"value": None, "amount": amount}, st.integers(LEAST_INTEGER, MOST_INTEGER)),
    st.just({"value": None, "touch": True}),
    st.builds(lambda steps: {"value": None, "steps": steps}, steps),
    st.builds(lambda value: {"value": value, "if_absent": True}, values),
)
writes = st.one_of(
    st.builds(Write, key=keys, value=values),
    st.builds(
        lambda key, returning, content, expiry: Write(key=key, mutable=True, returning=returning, **content, **expiry),
        *(keys, st.booleans(), contents, expiries),
    ),
)
paths, committed, perhaps = st.sampled_from(Path), proposals(), st.none() | proposals()
refused = st.builds(Refused, reason=reasons, no_quorum=st.booleans(), no_session=st.booleans())
done = st.builds(Done, value=st.none() | small, wrong=st.none() | st.sampled_from(Wrong), version=uints)
held = st.lists(ordered_values, max_size=2).map(tuple)
states = st.builds(
    PeerState,
    *(uints, st.none() | milliseconds, milliseconds, milliseconds, milliseconds | st.just(float("inf"))),
    *(st.booleans(), reasons),
)
consistencies = st.sampled_from(Consistency)

OF_KIND: dict[type[Any], st.SearchStrategy[Any]] = {
    LinkBeat: st.builds(LinkBeat),
    Write: writes,
    ReadAsk: st.builds(ReadAsk, keys, consistencies),
    Txn: txns,
    OrderedWriteAsk: st.builds(OrderedWriteAsk, writes, proposals()),
    OrderedReadAsk: st.builds(OrderedReadAsk, keys, proposals(), consistencies),
    ForwardedRequests: st.builds(ForwardedRequests, peer_requests.map(wire.encode_peer_request)),
    Outgoing: st.builds(Outgoing, uints, uints, values, st.booleans()),
    SessionOver: st.builds(SessionOver, sessions),
    LinkStates: st.builds(LinkStates, st.lists(states, max_size=3).map(tuple)),
    ComeToRest: st.builds(ComeToRest),
    GoOn: st.builds(GoOn),
    CommitNews: st.builds(CommitNews),
    GatewayLeaves: st.builds(GatewayLeaves, uints),
    PauseRequests: st.builds(PauseRequests),
    GatewayIsHere: st.builds(GatewayIsHere),
    Committed: st.builds(
        Committed, proposal=committed, mine=st.booleans(), path=paths, previous=perhaps, replies=several
    ),
    ExpectedValueDoesNotMatch: st.builds(ExpectedValueDoesNotMatch, committed=committed, path=paths),
    VersionMismatch: st.builds(VersionMismatch, committed=perhaps, path=paths),
    ImmutableKey: st.builds(ImmutableKey, committed=committed, path=paths),
    NothingToDelete: st.builds(NothingToDelete, committed=perhaps, path=paths),
    NotAnInteger: st.builds(NotAnInteger, committed=committed, path=paths, reason=reasons),
    Unchanged: st.builds(Unchanged, committed=perhaps, path=paths, replies=several),
    ConsensusFailed: st.builds(ConsensusFailed, reason=reasons),
    Refused: refused,
    ReadResult: st.builds(ReadResult, committed=perhaps, source=st.sampled_from(Source)),
    ReadFailed: st.builds(ReadFailed, reason=reasons),
    Executed: st.builds(
        Executed, succeeded=st.booleans(), compared=held, done=st.lists(done, max_size=2).map(tuple), reads=held
    ),
    TxnRefused: st.builds(TxnRefused, reason=reasons, no_quorum=st.booleans()),
    WrongEngine: st.builds(WrongEngine, keys=st.lists(keys, max_size=3).map(tuple)),
    TxnUnknown: st.builds(TxnUnknown, reason=reasons),
    NotOwner: st.builds(NotOwner),
    ForwardedReplies: st.builds(ForwardedReplies, peer_responses.map(wire.encode_peer_response)),
    PeerAnswered: st.builds(PeerAnswered, replies.map(wire.encode_reply)),
    Received: st.builds(Received),
    Unanswerable: st.builds(Unanswerable, reasons),
}


def there_and_back(number: int, content: Any) -> Any:
    ((kind, found, raw),) = decode_frame(join_messages([encode(number, content)]))
    assert found == number
    assert RECORDS[kind] is type(content)
    return decode(kind, raw)


def types_in(value: Any) -> Any:
    """Equality alone does not tell True from 1, a list from a tuple, or two records with the same fields."""
    if isinstance(value, msgspec.Struct):
        return type(value), [types_in(getattr(value, name)) for name in value.__struct_fields__]
    return (type(value), [types_in(each) for each in value]) if isinstance(value, tuple | list) else type(value)


def test_every_kind_has_examples() -> None:
    assert set(RECORDS.values()) == OF_KIND.keys()


@pytest.mark.parametrize("kind", OF_KIND, ids=lambda kind: kind.__name__)
def test_a_message_comes_back_as_it_was(kind: type[Any]) -> None:
    @given(numbers, OF_KIND[kind])
    def comes_back(number: int, content: Any) -> None:
        found = there_and_back(number, content)
        assert found == content
        assert types_in(found) == types_in(content)

    comes_back()


def test_a_subtraction_stays_one() -> None:
    taken = Txn(then=(Add(key=b"k", amount=-5),))
    assert there_and_back(1, taken) == taken
    assert there_and_back(1, taken).then[0].negative


@given(st.lists(st.tuples(numbers, writes | OF_KIND[Committed]), max_size=20))
def test_many_messages_in_one_frame_keep_their_order(sent: list[tuple[int, Any]]) -> None:
    body = join_messages([encode(number, content) for number, content in sent])
    assert [(number, decode(kind, raw)) for kind, number, raw in decode_frame(body)] == sent


def test_a_long_frame_has_more_messages_than_a_short_header_counts() -> None:
    for count in (15, 16, 65_535, 65_536):
        assert len(decode_frame(join_messages([encode(1, Received())] * count))) == count


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_read_as_messages(body: bytes) -> None:
    try:
        for kind, _, raw in decode_frame(body):
            assert type(decode(kind, raw)) is RECORDS[kind]
    except BadMessage:
        pass


def test_a_record_with_a_broken_invariant_is_refused() -> None:
    good = Write(key=b"k", value=b"v")
    raw = msgspec.Raw(msgspec.msgpack.encode({**msgspec.structs.asdict(good), "key": b""}))
    with pytest.raises(BadMessage, match="kind 1"):
        decode(1, raw)


def test_an_unknown_kind_is_refused_by_its_number() -> None:
    with pytest.raises(BadMessage, match="no message has the kind 99"):
        decode(99, msgspec.Raw(b"\x90"))


def test_replies_of_an_unknown_extension_are_refused() -> None:
    outcome = Unchanged(committed=None, path=Path.LOCAL, replies=(SimpleString("OK"),))
    kind, number, raw = decode_frame(join_messages([encode(1, outcome)]))[0]
    assert number == 1
    assert bytes(raw).count(b"\xd5\x01OK") == 1
    with pytest.raises(BadMessage, match="extension type 9"):
        decode(kind, msgspec.Raw(bytes(raw).replace(b"\xd5\x01OK", b"\xd5\x09OK")))


def test_texts_that_are_not_utf_8_come_back() -> None:
    outcome = Unchanged(committed=None, path=Path.LOCAL, replies=(Fault("\udcff"), SimpleString("\ud800")))
    assert there_and_back(1, outcome) == outcome


def test_what_has_no_encoding_is_said_to_be_so() -> None:
    with pytest.raises(TooLong, match="Write has no encoding"):
        encode(1, Write(key=b"k", value=b"v", mutable=True, if_version=1 << 64))
    with pytest.raises(TooLong, match="Refused has no encoding"):
        encode(1, Refused(reason="\ud800"))


def test_a_message_longer_than_a_frame_is_refused_and_the_longest_fits() -> None:
    with pytest.raises(TooLong, match="above the"):
        encode(1, ForwardedRequests(b"x" * (MAX_MESSAGE_BYTES + 1)))
    longest = join_messages([encode((1 << 63) - 1, ForwardedRequests(b"x" * wire.MAX_ENCODED_BYTES))])
    assert len(longest) + 36 <= MAX_FRAME_BYTES


def test_answers_are_told_from_questions_by_their_kind() -> None:
    questions = {kind for kind, record in RECORDS.items() if kind < FIRST_ANSWER}
    asked = {Write, Txn, *messages.NodeQuestion.__subclasses__(), LinkBeat}
    assert {RECORDS[kind] for kind in questions} == asked


# Planted faults.


def test_a_union_that_loses_a_type_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a script that a limit ended would arrive as a usual one, and what it wrote would not be undone."""
    monkeypatch.setattr(messages, "ENDED", messages.FAULT)
    outcome = Unchanged(committed=None, path=Path.LOCAL, replies=(ScriptEnded("too long"),))
    assert types_in(there_and_back(1, outcome)) != types_in(outcome)


def test_replies_that_come_back_as_lists_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "replied", lambda found: found)
    outcome = Unchanged(committed=None, path=Path.LOCAL, replies=((1, 2),))
    assert types_in(there_and_back(1, outcome)) != types_in(outcome)
