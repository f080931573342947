"""Sessions: keys of the cluster's own with a time to live, with which other keys end."""

from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.records import SESSION_ID_BYTES

SESSION_KEYS = FIRST_SYSTEM_KEY + b"/session/"
"""The beginning of their names. A session is made once, under an id drawn at random, and never again after its end: so
its tombstone is the end of everything that names it."""


def session_key(session: bytes) -> bytes:
    assert len(session) == SESSION_ID_BYTES, session
    return SESSION_KEYS + session


def session_of(key: bytes) -> bytes:
    """The id of the session with this key; empty: it is none."""
    return key[len(SESSION_KEYS) :] if key.startswith(SESSION_KEYS) else b""
