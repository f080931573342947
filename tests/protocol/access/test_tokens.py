"""Tokens: their form, and what is stored of them."""

import re
from hashlib import sha256

from epoxy.protocol.access.tokens import TOKEN_LENGTH, digest_of, token_of


def test_a_token_is_a_mark_and_256_bits_that_a_url_and_a_shell_can_carry() -> None:
    tokens = {token_of(bytes([number]) * 32) for number in range(256)}
    assert len(tokens) == 256
    for token in tokens:
        assert re.fullmatch(r"epx_[A-Za-z0-9_-]{43}", token)
        assert len(token) == TOKEN_LENGTH


def test_its_hash_is_stored_and_not_its_random_bytes() -> None:
    token = token_of(bytes(32)).encode()
    assert digest_of(token) == sha256(token).digest() != sha256(bytes(32)).digest()
