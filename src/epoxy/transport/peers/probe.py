"""What a node says of itself to a holder of the cluster's secret that is no peer of it: a node that is not sure where
it belongs and must not greet others yet, a member that is told to add the node, a command on a node's machine.

The request is signed as an operator's, so no store is named and nothing is recorded of the sender.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from ssl import SSLContext
from urllib.parse import urlsplit

import msgspec

from epoxy.codec import json_text
from epoxy.model.api import Failure
from epoxy.model.errors import CodecError, Unavailable
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.request import HttpReply
from epoxy.transport.http.response import JSON
from epoxy.transport.limits import PROBE_PATH
from epoxy.transport.peers import auth
from epoxy.transport.peers.dial import Dial
from epoxy.transport.peers.gateway_refusal import NOT_GATEWAY
from epoxy.transport.peers.signed_header import SignedHeader

FIRST_EPOCH = 1

failures = msgspec.json.Decoder(Failure)

MAX_REASON = 300
"""Characters of another node's words that are passed on."""


class ProbeRefused(Unavailable):
    """A node runs there, and it is another one, or has another secret."""


class ProbeEndpoint:
    """The handler of `GET /v2/epoxy/probe`. `certificates`: as `Authenticator` has it."""

    def __init__(self, verifier: auth.Verifier, describe: Callable[[], bytes], *, certificates: bool = False) -> None:
        self._verifier = verifier
        self._describe = describe
        self._certificates = certificates

    def __call__(self, exchange: Exchange) -> None:
        request = exchange.request
        try:
            if self._certificates and not exchange.certified:
                raise auth.BadSignature("peers show a certificate")
            signed = self._verifier.verify(request.headers, request.path, request.body)
        except auth.BadSignature as refusal:
            exchange.fail(401, "unauthenticated", str(refusal))
            return
        exchange.mark_as_peer()
        body = self._describe()
        exchange.respond(200, body, content_type=JSON, headers=(self._verifier.answer(signed, 200, body),))


async def probe_any(
    urls: Sequence[str], replica: int, secret: bytes, tls: SSLContext | None, timeout_s: float
) -> bytes:
    """As `probe`, of a member with several addresses: all are asked at once, and the first answer counts. Of its nodes
    the gateway answers. ProbeRefused: none answers, and another node runs at one of them."""
    asking = [asyncio.ensure_future(probe(url, replica, secret, tls, timeout_s)) for url in urls]
    failures: list[Unavailable] = []
    try:
        for answer in asyncio.as_completed(asking):
            try:
                return await answer
            except Unavailable as failure:
                failures.append(failure)
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    refused = any(isinstance(failure, ProbeRefused) for failure in failures)
    raise (ProbeRefused if refused else Unavailable)("; ".join(map(str, failures)))


async def probe(url: str, replica: int, secret: bytes, tls: SSLContext | None, timeout_s: float) -> bytes:
    """What replica `replica`, which should run at `url`, says of itself. Unavailable: it does not answer."""
    header = SignedHeader(auth.OPERATOR, replica, FIRST_EPOCH, auth.wall_ms(), secrets.randbits(64))
    signature, mac = auth.sign(secret, header, PROBE_PATH, b"")
    answer = await exchanged(url, signature, tls, timeout_s)
    if answer.status == 200:
        proof = answer.headers.get(auth.MAC_HEADER, b"")
        if auth.greeting_of(secret, mac, 200, proof, answer.body) is None:
            raise ProbeRefused(f"{url}: the answer is not signed with this cluster's secret")
        return answer.body
    reason = reason_in(answer.body)
    if answer.status == 401 and reason:
        raise ProbeRefused(f"{url}: {reason}")
    raise Unavailable(f"{url}: answered {answer.status}: {reason or 'which no Epoxy node says'}")


def reason_in(body: bytes) -> str:
    """Empty: no error of a node."""
    try:
        return json_text.decode(failures, body).error.message[:MAX_REASON]
    except CodecError:
        return ""


async def exchanged(url: str, signature: bytes, tls: SSLContext | None, timeout_s: float) -> HttpReply:
    address, loop = urlsplit(url), asyncio.get_running_loop()
    if address.scheme == "https" and tls is None:
        raise Unavailable(f"{url} wants TLS, and there is no [tls]")
    port = address.port or (443 if address.scheme == "https" else 80)
    head = b"GET %b HTTP/1.1\r\nhost: %b\r\nauthorization: %b\r\nconnection: close\r\n\r\n" % (
        PROBE_PATH,
        address.netloc.encode("ascii"),
        signature,
    )
    dial, answered = Dial(lambda: None), loop.create_future()
    try:
        async with asyncio.timeout(timeout_s):
            ssl = tls if address.scheme == "https" else None
            await loop.create_connection(lambda: dial, address.hostname or "", port, ssl=ssl)
            await dial.opened
            dial.request(head, b"", lambda answer: None if answered.done() else answered.set_result(answer))
            answer: HttpReply | None = await answered
    except OSError as error:  # TimeoutError and TLS's errors are among them.
        raise Unavailable(f"{url}: {str(error) or 'no answer in time'}") from error
    finally:
        dial.abort()
    if dial.not_gateway:
        raise Unavailable(f"{url}: {NOT_GATEWAY}: another node of its datacenter is")
    if answer is None:
        raise Unavailable(f"{url}: the connection was closed before an answer")
    return answer
