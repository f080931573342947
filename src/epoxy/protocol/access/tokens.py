"""Tokens: what a client shows, and what is stored of it."""

from base64 import urlsafe_b64encode
from hashlib import sha256

TOKEN_MARK = "epx_"
"""Tells a token from other secrets, for tools that look for secrets in files."""

TOKEN_RANDOM_BYTES = 32
TOKEN_LENGTH = len(TOKEN_MARK) + 43
"""The mark, and base64url of 32 bytes without its padding."""

DIGEST_BYTES = 32


def token_of(random: bytes) -> str:
    assert len(random) == TOKEN_RANDOM_BYTES
    return TOKEN_MARK + urlsafe_b64encode(random).rstrip(b"=").decode()


def digest_of(token: bytes) -> bytes:
    """A token has 256 random bits, so a fast hash without a salt is enough. The whole text is hashed, its mark too."""
    return sha256(token).digest()
