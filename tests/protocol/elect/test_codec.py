"""The original text's verbs and field order on the wire, and nothing else accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.codec.resp import CommandReader
from epoxy.model.address import Address
from epoxy.model.errors import CodecError
from epoxy.protocol.elect import codec as wire
from epoxy.protocol.elect.config import ElectNode
from epoxy.protocol.elect.handshake import ElectHello
from epoxy.protocol.elect.lists import NodeList
from epoxy.protocol.elect.messages import (
    Acceptance,
    Announce,
    Counted,
    Handover,
    Heartbeat,
    Message,
    Offer,
    Role,
    ServerState,
)

numbers = st.integers(0, 2**64 - 1)
ids = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=32)
digests = st.text("0123456789abcdef", min_size=16, max_size=16)
addresses = st.builds(Address, ids, st.integers(1, 65_535))
nodes = st.builds(ElectNode, id=ids, control=addresses, server=addresses, priority=st.integers(0, 1_000))
lists = st.builds(NodeList, nodes=st.lists(nodes, min_size=1, max_size=15).map(tuple), digest=digests, words=digests)
messages = st.one_of(
    st.builds(
        Heartbeat,
        epoch=numbers,
        node=ids,
        role=st.sampled_from(Role),
        offset=numbers,
        leader_epoch=numbers,
        leader=ids,
        history=numbers,
        state=st.sampled_from(ServerState),
        stamp=numbers,
        echo=numbers,
        stage=numbers,
        list=digests,
    ),
    st.builds(
        Offer,
        epoch=numbers,
        node=ids,
        offset=numbers,
        history=numbers,
        in_office=st.booleans(),
        stage=numbers,
        list=digests,
    ),
    st.builds(Acceptance, epoch=numbers, node=ids, candidate=ids),
    st.builds(Announce, epoch=numbers, node=ids, address=ids),
    st.builds(Handover, epoch=numbers, node=ids, heir=ids),
    st.builds(
        Counted,
        epoch=numbers,
        node=ids,
        stage=st.just(3),
        lists=st.tuples(lists, lists),
        floor_generation=numbers,
        floor_list=st.just("") | digests,
    ),
)


def read(data: bytes) -> list[bytes]:
    (command,) = CommandReader(wire.LIMITS).feed(data)
    return command


@given(messages)
def test_what_is_sent_is_what_arrives(message: Message) -> None:
    assert wire.decode(read(wire.encode(message))) == message


@given(messages)
def test_a_heartbeat_is_skimmed_and_nothing_else_is(message: Message) -> None:
    data = wire.encode(message)
    assert wire.skim(data) == (read(data) if isinstance(message, Heartbeat) else None)
    assert wire.skim(data[:-1]) is None
    assert wire.skim(data + data) is None


def test_a_size_that_lies_is_not_skimmed() -> None:
    words = [b"HB", b"12", *[b"x"] * 11]
    sound = b"*13\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    assert wire.skim(sound) == words
    assert wire.skim(sound.replace(b"$2\r\n12", b"$3\r\n12")) is None


def words(message: Message) -> list[bytes]:
    return read(wire.encode(message))


def test_the_fields_of_the_seed_come_first_in_its_order() -> None:
    beat = Heartbeat(
        epoch=5,
        node="east-1",
        role=Role.REPLICA,
        offset=77,
        leader_epoch=4,
        leader="east-2",
        history=3,
        state=ServerState.READY,
        stamp=11,
        echo=12,
        stage=1,
        list="0123456789abcdef",
    )
    assert words(beat)[:5] == [b"HB", b"5", b"east-1", b"replica", b"77"]
    assert words(beat)[5:] == [b"4", b"east-2", b"3", b"ready", b"11", b"12", b"1", b"0123456789abcdef"]
    offered = Offer(epoch=6, node="east-1", offset=77, history=3, in_office=False, stage=1, list="0123456789abcdef")
    assert words(offered) == [b"OFFER", b"6", b"east-1", b"77", b"3", b"0", b"1", b"0123456789abcdef"]
    assert words(Acceptance(epoch=6, node="b", candidate="a")) == [b"ACCEPT", b"6", b"b", b"a"]
    assert words(Announce(epoch=6, node="a", address="h:1")) == [b"ANNOUNCE", b"6", b"a", b"h:1"]
    assert wire.encode(Acceptance(epoch=6, node="b", candidate="a")).startswith(b"*4\r\n$6\r\nACCEPT\r\n$1\r\n6\r\n")


@pytest.mark.parametrize(
    "command",
    [
        [],
        [b"NOPE", b"1"],
        [b"hb", b"1"],
        [b"ACCEPT", b"1", b"a"],
        [b"ACCEPT", b"1", b"a", b"b", b"c"],
        [b"ACCEPT", b"-1", b"a", b"b"],
        [b"ACCEPT", b"01", b"a", b"b"],
        [b"ACCEPT", b"18446744073709551616", b"a", b"b"],
        [b"ACCEPT", b"1" * 400, b"a", b"b"],
        [b"ACCEPT", b"", b"a", b"b"],
        [b"ACCEPT", b"1", b"", b"b"],
        [b"ACCEPT", b"1", b"x" * 33, b"b"],
        [b"ACCEPT", b"1", b"\xff", b"b"],
        [b"ACCEPT", b"1", b"a\n", b"b"],
        [b"OFFER", b"1", b"a", b"1", b"1", b"2", b"0", b"0" * 16],
        [b"OFFER", b"1", b"a", b"1", b"1", b"0", b"0", b"0" * 15],
        [b"HB", b"1", b"a", b"king", b"1", b"1", b"a", b"1", b"ready", b"1", b"1", b"0", b"0" * 16],
        [b"HB", b"1", b"a", b"replica", b"1", b"1", b"a", b"1", b"asleep", b"1", b"1", b"0", b"0" * 16],
        [b"COUNTED", b"1", b"a", b"0", b"[]", b"0", b""],
        [b"COUNTED", b"1", b"a", b"0", b"[" * 20_000, b"0", b""],
        [b"COUNTED", b"1", b"a", b"0", b"[\xff]", b"0", b""],
        [b"COUNTED", b"1", b"a", b"0", b'[{"nodes":[],"digest":"0123456789abcdef","words":""}]', b"0", b""],
        [b"ANNOUNCE", b"1", b"a", b"h" * 300],
    ],
)
def test_anything_else_is_refused(command: list[bytes]) -> None:
    with pytest.raises(CodecError):
        wire.decode(command)


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_no_frame_brings_the_decoder_down(command: list[bytes]) -> None:
    try:
        wire.decode(command)
    except CodecError:
        return
    assert command[0] in wire.LAYOUTS


def test_a_greeting_and_its_proof() -> None:
    greeting = ElectHello(version="2", cluster="c", sender="a", receiver="b", config_hash="f", lists="0:f", nonce="00")
    assert wire.decode_hello(read(wire.encode_hello(greeting))) == (greeting, "")
    assert wire.decode_hello(read(wire.encode_hello(greeting, "abc"))) == (greeting, "abc")
    assert wire.decode_proof(read(wire.encode_proof("abc"))) == "abc"
    for wrong in ([b"HELLO", b"1"], [b"PROOF", b"x"], [b"HELLO", *[b"x" * 300] * 7]):
        with pytest.raises(CodecError):
            wire.decode_hello(wrong)
    with pytest.raises(CodecError):
        wire.decode_proof([b"PROOF"])
