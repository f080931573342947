"""Names of sessions."""

from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.sessions import session_key, session_of


def test_a_session_is_found_by_its_key_and_no_client_can_name_it() -> None:
    session = bytes(range(16))

    assert session_of(session_key(session)) == session
    assert session_key(session) >= FIRST_SYSTEM_KEY
    assert session_of(b"user/ada") == b""
