"""Orders to the emulated links, signed with the cluster's secret or with an operator's token."""

import msgspec
import pytest

from epoxy.transport.peers import auth
from epoxy.transport.peers.auth import OPERATOR, Verifier
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.wan.emulation import Link
from tests.api.http.access_bench import links_api
from tests.transport.http.harness import RunningServer, with_server
from tests.transport.wan.test_emulation import JumpingClock

SECRET = b"a secret of the whole cluster"
PATH = b"/v2/admin/links"
NOW_MS = 1_800_000_000_000


def order(body: bytes, *, sender: int = OPERATOR, secret: bytes = SECRET, nonce: int = 1) -> bytes:
    value, _ = auth.sign(secret, SignedHeader(sender, 1, 0, NOW_MS, nonce), PATH, body)
    return b"POST %b HTTP/1.1\r\nauthorization: %b\r\ncontent-length: %d\r\n\r\n%b" % (PATH, value, len(body), body)


def state(answer: bytes) -> object:
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    return msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])


def test_the_operator_cuts_and_heals() -> None:
    link = Link(JumpingClock())

    async def test(server: RunningServer) -> None:
        both = await server.ask(order(b'{"cut": [2, 3]}', nonce=1))
        cut = {"sends": False, "hears": False}
        assert state(both) == {"cut": {"2": cut, "3": cut}}
        one_way = await server.ask(order(b'{"heal": [2], "cut": [3], "hears": true}', nonce=2))
        assert state(one_way) == {"cut": {"3": {"sends": False, "hears": True}}}
        assert [link.sends(2), link.hears(2), link.sends(3), link.hears(3)] == [True, True, False, True]
        assert state(await server.ask(order(b"{}", nonce=3))) == {"cut": {"3": {"sends": False, "hears": True}}}
        slow = await server.ask(order(b'{"heal": [3], "slow": {"2": 300}}', nonce=4))
        assert state(slow) == {"cut": {}, "slow": {"2": 300.0}}
        assert link.half_ms(2) == 150.0

    with_server(links_api(link, Verifier(1, SECRET, now_ms=lambda: NOW_MS)), test)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /v2/admin/links HTTP/1.1\r\ncontent-length: 12\r\n\r\n" + b'{"cut": [2]}', 401),
        (order(b'{"cut": [2]}', secret=b"another"), 401),
        (order(b'{"cut": [2]}', sender=3), 403),
        (order(b'{"cut": [2, 4]}'), 404),
        (order(b'{"slow": {"4": 1}}'), 404),
        (order(b'{"slow": {"2": -1}}'), 400),
        (order(b'{"cut": "all"}'), 400),
        (order(b'{"cuts": [2]}'), 400),
        (order(b"cut 2"), 400),
    ],
)
def test_nobody_else_does(request_bytes: bytes, status: int) -> None:
    link = Link(JumpingClock())

    async def test(server: RunningServer) -> None:
        assert (await server.ask(request_bytes)).startswith(b"HTTP/1.1 %d " % status)

    with_server(links_api(link, Verifier(1, SECRET, now_ms=lambda: NOW_MS)), test)
    assert (link.state(), link.slowed()) == ({}, {})
