"""Frames of a connection between nodes. Both of its ends are in `test_links.py`, over real sockets."""

from typing import get_args

import pytest

from epoxy.codec.seals import Seals
from epoxy.datacenter.link_ends import FIRST_NODE, PROTOCOL, NodeFrames, header_of
from epoxy.datacenter.messages import BadMessage, NotOwner, Received, encode
from epoxy.node.process.config import ReplicaId
from epoxy.transport.peers.frames import BadFrame


def pair() -> tuple[NodeFrames, NodeFrames]:
    there, back = b"a key of one direction", b"a key of the other"
    return NodeFrames(Seals(there), Seals(back)), NodeFrames(Seals(back), Seals(there))


def test_messages_arrive_in_order_however_the_bytes_are_cut() -> None:
    one, two = pair()
    data = one.frame([encode(1, NotOwner()), encode(2, Received())]) + one.frame([encode(3, NotOwner())])
    found = [message for cut in range(len(data)) for message in two.read(data[cut : cut + 1])]
    assert [(number, content) for _, number, content in found] == [(1, NotOwner()), (2, Received()), (3, NotOwner())]


def test_a_frame_is_read_once_at_its_place_and_in_its_direction() -> None:
    one, two = pair()
    first, second = one.frame([encode(1, NotOwner())]), one.frame([encode(2, NotOwner())])
    with pytest.raises(BadFrame, match="not sealed for its place"):
        two.read(second)
    one, two = pair()
    assert two.read(one.frame([encode(1, NotOwner())]))
    with pytest.raises(BadFrame):
        two.read(first)
    one, two = pair()
    with pytest.raises(BadFrame):
        one.read(one.frame([encode(1, NotOwner())]))


def test_a_changed_frame_is_refused() -> None:
    one, two = pair()
    frame = bytearray(one.frame([encode(1, NotOwner())]))
    frame[-1] ^= 1
    with pytest.raises(BadFrame):
        two.read(bytes(frame))


def test_a_sealed_frame_without_messages_is_refused() -> None:
    seals = Seals(b"a key of one direction")
    body = b"\xc1"
    _, two = pair()
    with pytest.raises(BadMessage):
        two.read((32 + len(body)).to_bytes(4, "little") + seals.next(b"", body) + body)


def test_a_header_in_any_spelling() -> None:
    assert header_of(b"Upgrade:  epoxy-nodes/1 ") == (b"upgrade", PROTOCOL)
    assert header_of(b"nothing") == (b"nothing", b"")


def test_a_node_is_no_replica() -> None:
    (bounds,) = get_args(ReplicaId)[1:]
    assert bounds.le < FIRST_NODE
