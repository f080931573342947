"""What a session may do follows its grant."""

from epoxy.api.resp.connection import RespConnection
from epoxy.api.resp.limits import UNAUTHENTICATED
from epoxy.api.resp.server import RespServer
from epoxy.model.access import AccessRole
from tests.api.resp.resp_world import FakeAccess, FakeNode, granted, token_for
from tests.fuzz.hand_loop import hand_loop


def test_a_client_is_a_stranger_until_it_shows_something_and_again_when_that_is_revoked() -> None:
    node = FakeNode()
    node.access = access = FakeAccess([granted("ci", AccessRole.READER)])
    with hand_loop():
        session = RespConnection(RespServer(node))
        assert not session.identify(lambda: None)
        assert session.principal is None
        assert session.identify(lambda: access.of_token(token_for("ci").encode()))
        assert session.principal is not None
        assert session.principal.name == "ci"
        assert session.reader.limits is not UNAUTHENTICATED
        access.grant()
        session._identify_again()
        assert session.principal is None
        assert session.reader.limits is UNAUTHENTICATED
