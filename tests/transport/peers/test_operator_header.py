"""What an operator signs is accepted once, by the node it is meant for."""

import pytest

from epoxy.transport.peers.auth import OPERATOR, BadSignature, Verifier
from epoxy.transport.peers.operator_header import operator_authorization

SECRET = b"s" * 32


def test_it_is_accepted_once_for_this_path_and_body_alone() -> None:
    headers = {b"authorization": operator_authorization(SECRET, 2, "/v2/auth/init", b"{}").encode()}
    verifier = Verifier(2, SECRET)
    for path, body in ((b"/v2/auth/tokens", b"{}"), (b"/v2/auth/init", b"{ }")):
        with pytest.raises(BadSignature, match="not signed with our secret"):
            verifier.verify(headers, path, body)
    assert verifier.verify(headers, b"/v2/auth/init", b"{}").header.sender == OPERATOR
    with pytest.raises(BadSignature, match="a repetition"):
        verifier.verify(headers, b"/v2/auth/init", b"{}")


def test_another_node_or_secret_refuses_it() -> None:
    headers = {b"authorization": operator_authorization(SECRET, 2, "/v2/auth/init", b"").encode()}
    with pytest.raises(BadSignature, match="meant for replica 2"):
        Verifier(1, SECRET).verify(headers, b"/v2/auth/init", b"")
    with pytest.raises(BadSignature, match="not signed with our secret"):
        Verifier(2, b"t" * 32).verify(headers, b"/v2/auth/init", b"")
