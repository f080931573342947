"""Where the tests of the driver begin: a node with a write under way."""

from collections.abc import Callable, Sequence

from epoxy.model.messages import Reply, Request
from tests.node.bench import Node, Sent
from tests.protocol.keys.harness import TIMING, A, B, C, prop

MINE = prop(b"v", by=A, nonce=1)


OTHERS = prop(b"other", by=C)


def kinds(sent: dict[int, Sent]) -> dict[int, list[type]]:
    return {to: [type(request) for request in each.requests] for to, each in sent.items()}


def writing() -> tuple[Node, dict[int, Sent]]:
    """A write whose Accepts are out."""
    node = Node()
    node.write()
    node.disk.sync()
    return node, node.transport.take()


def preparing() -> tuple[Node, dict[int, Sent], dict[int, Sent]]:
    """... and whose hedge timer has rung: also the Prepares."""
    node, accepts = writing()
    node.clock.advance(TIMING.hedge_ms)
    node.disk.sync()
    return node, accepts, node.transport.take()


def answers_then_raises(reply: Reply) -> Callable[[int, Sequence[Request], Callable[[Reply], None] | None], None]:
    """`send` of a transport that has an answer of B at once, and cannot reach others."""

    def send(to: int, _requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        if to != B:
            raise OSError("no route")
        assert answered is not None
        answered(reply)

    return send
