"""How the limit of file descriptors is divided, and what is said of a low one."""

import logging
import resource

import pytest

from epoxy.model.errors import ConfigError
from epoxy.node.process import descriptors
from epoxy.node.process.logs import LOGGER
from epoxy.transport.http.reserves import MAX_HANDSHAKES, Bands


def limited(monkeypatch: pytest.MonkeyPatch, clients: int, operators: int = 1 << 20) -> None:
    monkeypatch.setattr(descriptors, "bands", lambda: Bands(clients=clients, peers=operators, operators=operators))


@pytest.mark.parametrize(("wanted", "allowed"), [(10, 10), (1_000, 256), (256, 256)])
def test_each_port_has_an_equal_share(monkeypatch: pytest.MonkeyPatch, wanted: int, allowed: int) -> None:
    limited(monkeypatch, descriptors.OWN_FILES + 4 * 256)
    assert descriptors.connections_per_port(wanted) == allowed
    assert descriptors.handshakes_per_port() == 128


def test_handshakes_are_few_but_never_none(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, descriptors.OWN_FILES + 8)
    assert descriptors.handshakes_per_port() == descriptors.LEAST_HANDSHAKES
    limited(monkeypatch, 1 << 20)
    assert descriptors.handshakes_per_port() == MAX_HANDSHAKES


@pytest.mark.parametrize(("soft", "refused"), [(descriptors.LEAST - 1, True), (descriptors.LEAST, False)])
def test_a_limit_that_is_too_low_ends_the_start(monkeypatch: pytest.MonkeyPatch, soft: int, refused: bool) -> None:
    limits = {"now": (16, soft)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.update(now=pair))
    if refused:
        with pytest.raises(ConfigError, match=f"this process may open {soft}, and a node needs {descriptors.LEAST}"):
            descriptors.raise_limit()
    else:
        descriptors.raise_limit()
    assert limits["now"] == (soft, soft)


def test_fewer_connections_than_wanted_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(LOGGER, "propagate", True)
    with caplog.at_level(logging.INFO, logger=LOGGER.name):
        descriptors.log_lower_limit(10, 10)
        descriptors.log_lower_limit(10, 9)
    assert [record.getMessage() for record in caplog.records] == ["fewer connections than limits.connections"]
