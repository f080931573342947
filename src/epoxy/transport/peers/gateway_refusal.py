"""One node of a datacenter speaks with its peers, the gateway. A peer that dials another of its nodes is told so, and
tries the next address of that member at once: it is no refusal, and nothing is wrong."""

from typing import TYPE_CHECKING

from epoxy.transport.http.request import HttpReply
from epoxy.transport.http.response import JSON, problem, problem_of

if TYPE_CHECKING:
    from epoxy.transport.http.exchange import Exchange
    from epoxy.transport.peers.frames import FrameExchange

NOT_GATEWAY_STATUS = 421
NOT_GATEWAY = "not_gateway"
WORDS = "nothing was done: another node is the gateway of this datacenter, which alone speaks with peers"

ERROR_LINE = b"epoxy-error: %b" % NOT_GATEWAY.encode()
"""In the head of the answer: that of a handshake is read without its body, which may come later."""


def refuse_peer(exchange: "Exchange") -> None:
    """The answer of a node that is not the gateway to every request at an address of peers (`limits.GATEWAY_PATHS`). It
    is not asked who sends it: the answer tells what anyone can see who dials."""
    body = problem(NOT_GATEWAY, WORDS)
    header = (b"epoxy-error", NOT_GATEWAY.encode())
    exchange.respond(NOT_GATEWAY_STATUS, body, content_type=JSON, headers=(header,))


def refuse_frame(exchange: "FrameExchange") -> None:
    """The same on a connection that was opened while this node was the gateway."""
    exchange.fail(NOT_GATEWAY_STATUS, NOT_GATEWAY, WORDS)


def is_not_gateway(answer: HttpReply) -> bool:
    return answer.status == NOT_GATEWAY_STATUS and problem_of(answer.body)[0] == NOT_GATEWAY


def may_be_not_gateway(received: bytes) -> bool:
    """Whether the beginning of an answer to a handshake may become that of a node that is not the gateway."""
    line = b"HTTP/1.1 %d " % NOT_GATEWAY_STATUS
    return received.startswith(line[: len(received)])


def says_not_gateway(head: bytes) -> bool:
    """Whether this is the whole head of one."""
    return may_be_not_gateway(head) and ERROR_LINE in head.lower().split(b"\r\n")
