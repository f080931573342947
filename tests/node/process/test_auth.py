"""Whether a node asks for tokens: open on loopback, by choice elsewhere, and never by mistake."""

import pytest
from msgspec.structs import replace

from epoxy.model.address import Address
from epoxy.model.errors import ConfigError
from epoxy.node.process.auth import auth_of, exposed_listeners, is_loopback
from epoxy.node.process.config import AccessSettings, Settings
from tests.node.service_bench import settings_of


def listening(http: str, resp: str | None = None, *, auth: str | None = None) -> Settings:
    settings = settings_of(1)
    node = replace(settings.node, http=Address(http, 1), resp=Address(resp, 2) if resp is not None else None)
    return replace(settings, node=node, access=AccessSettings(auth=auth))  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_loopback_address_is_open_without_a_word(host: str) -> None:
    assert is_loopback(host)
    assert auth_of(listening(host)) == "open"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "fe80::1", "::ffff:10.0.0.1", "no-such-host.invalid"])
def test_anything_else_needs_a_choice_and_the_line_names_both(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ConfigError) as refused:
        auth_of(listening(host))
    words = str(refused.value)
    assert "\n" not in words
    for part in ("access.auth", "node.http", 'auth = "tokens"', 'auth = "open"', "epoxy auth init"):
        assert part in words


def test_one_listener_that_others_reach_is_enough() -> None:
    settings = listening("127.0.0.1", "0.0.0.0")
    assert list(exposed_listeners(settings.node)) == ["node.resp"]
    with pytest.raises(ConfigError, match=r"node\.resp 0\.0\.0\.0:2"):
        auth_of(settings)


@pytest.mark.parametrize("auth", ["tokens", "open"])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_choice_holds_everywhere(host: str, auth: str) -> None:
    assert auth_of(listening(host, auth=auth)) == auth
