"""Orders of an operator to an agent: signed with the cluster's secret, and carried out once.

An order names the cluster, the agent, and the life of the agent's process, which the agent tells to every client. So
it can be carried out by one process alone, and what was seen before a restart is not needed after it. Inside that life
a repetition is refused by its nonce while its time is within the window, and afterwards by its time.
"""

import hmac
from collections.abc import Sequence

import msgspec
from msgspec import Struct

WINDOW_MS = 30_000
"""How far the clocks of operator and agent may be apart, including the way: as between peers of a cluster."""

MAX_ORDERS = 256
"""Remembered at a time. They are signed, so only an operator could exceed it."""

NONCE_BYTES = 16
LIFE_BYTES = 16
"""128 bits are never drawn twice."""

FAILOVER = "failover"


class Addressee(Struct, frozen=True, kw_only=True):
    """The process that an order is for."""

    cluster: str
    agent: str
    life: str


class OperatorOrder(Struct, frozen=True, kw_only=True):
    act: str
    target: str
    time_ms: int
    nonce: str


def proof_of(secret: bytes, addressee: Addressee, order: OperatorOrder) -> str:
    """Over a JSON array: no two orders have the same text."""
    told = (addressee.cluster, addressee.agent, addressee.life, order.act, order.target, order.time_ms, order.nonce)
    return hmac.digest(secret, b"elect order\n" + msgspec.json.encode(told), "sha256").hex()


class OrderDesk:
    """Says of each order whether it is to be carried out."""

    def __init__(self, addressee: Addressee) -> None:
        self.addressee = addressee
        self.refused = 0
        self._seen: dict[str, int] = {}
        self._forgotten_ms = 0

    def refusal(self, order: OperatorOrder, proof: str, secrets: Sequence[bytes], now_ms: int) -> str | None:
        """Why the order is not carried out; None: it is, and never again. The checks that change nothing come first."""
        reason = self._reason(order, proof, secrets, now_ms)
        if reason is not None:
            self.refused += 1
        return reason

    def _reason(self, order: OperatorOrder, proof: str, secrets: Sequence[bytes], now_ms: int) -> str | None:
        if not any(is_proof(secret, self.addressee, order, proof) for secret in secrets):
            return "cluster.secret_file: signed with a different secret, for another agent, or before it was restarted"
        apart_ms = order.time_ms - now_ms
        if not is_timely(apart_ms):
            side = "ahead of" if apart_ms > 0 else "behind"
            return f"the order's time is {abs(apart_ms) // 1000} s {side} the agent's clock: compare the clocks"
        if is_repeated(order, self._seen, self._forgotten_ms):
            return "this order was given before"
        self._forget(now_ms)
        if len(self._seen) >= MAX_ORDERS:
            return f"more than {MAX_ORDERS} orders in {2 * WINDOW_MS // 1000} s"
        self._seen[order.nonce] = order.time_ms
        return None

    def _forget(self, now_ms: int) -> None:
        """What is out of the window. A clock that is set back does not bring it in again."""
        for nonce, time_ms in list(self._seen.items()):
            if time_ms < now_ms - WINDOW_MS:
                del self._seen[nonce]
                self._forgotten_ms = max(self._forgotten_ms, time_ms)


def is_proof(secret: bytes, addressee: Addressee, order: OperatorOrder, proof: str) -> bool:
    return hmac.compare_digest(proof_of(secret, addressee, order).encode(), proof.encode("utf-8", "replace"))


def is_timely(apart_ms: int) -> bool:
    return abs(apart_ms) <= WINDOW_MS


def is_repeated(order: OperatorOrder, seen: dict[str, int], forgotten_ms: int) -> bool:
    return order.nonce in seen or order.time_ms <= forgotten_ms
