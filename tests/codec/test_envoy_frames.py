"""Frames of envoys: batches in MessagePack and single messages in JSON say the same."""

import pytest

from epoxy.codec import envoy_frames
from epoxy.model.envoy_messages import ActorRequest, EnvoyHello, FromEnvoy, Ping, SaveState, Start, Stopped
from epoxy.model.errors import InvalidValue
from epoxy.model.exchanges import HeldSocket, Piece, RequestHead

HEAD = RequestHead(method="GET", path="/x", headers=(("a", "b"),), caller="web")
SOCKET = HeldSocket(stream=4, head=HEAD, attachment=b"who")


def test_a_batch_keeps_the_order() -> None:
    said: list[FromEnvoy] = [
        EnvoyHello(namespace="n", pool="p", envoy_key="k"),
        Ping(sent_ms=1),
        SaveState(actor_id="01", generation=1, number=2, version=3, document=b"\x00\xff"),
        Stopped(actor_id="01", generation=1, asleep=True, sockets=(SOCKET,)),
        Piece(stream=1, body=b"\xff", text=True),
    ]
    assert envoy_frames.from_envoy.read(envoy_frames.batch(said), text=False) == said


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_joined_pieces_are_a_batch(count: int) -> None:
    pings: list[FromEnvoy] = [Ping(sent_ms=number % 100) for number in range(count)]
    assert envoy_frames.join([envoy_frames.pack(ping) for ping in pings]) == envoy_frames.batch(pings)


def test_text_says_the_same() -> None:
    for told in (
        ActorRequest(request_id=1, actor_id="01", generation=1, body=b"\xff", head=HEAD),
        Start(actor_id="01", generation=1, namespace="n", name="a", key="k", state=b"s", sockets=(SOCKET,)),
    ):
        assert envoy_frames.to_envoy.read(envoy_frames.text_frame(told), text=True) == [told]


@pytest.mark.parametrize("frame", [b"", b"\xc1", b"\x91\x01", b"\x80", b'{"type":"ping"}', b"\x91" * 5000])
def test_damaged_batches_are_refused(frame: bytes) -> None:
    with pytest.raises(InvalidValue):
        envoy_frames.from_envoy.read(frame, text=False)
