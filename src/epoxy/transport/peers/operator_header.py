"""The signature of an operator: a process on a node's machine that can read the cluster's secret, and has no store."""

import secrets

from epoxy.transport.peers.auth import OPERATOR, sign, wall_ms
from epoxy.transport.peers.signed_header import SignedHeader

NO_EPOCH = 1
"""An operator belongs to no configuration: it is not looked at."""


def operator_authorization(secret: bytes, recipient: int, path: str, body: bytes) -> str:
    """The value of the authorization header for one request to replica `recipient`; it is accepted once."""
    header = SignedHeader(OPERATOR, recipient, NO_EPOCH, wall_ms(), secrets.randbits(64))
    signature, _ = sign(secret, header, path.encode(), body)
    return signature.decode()
