"""What a node's log says about who may do what."""

import logging

import pytest
from msgspec.structs import replace

from epoxy.model.address import Address
from epoxy.server.access import log_access
from tests.node.service_bench import World


@pytest.mark.parametrize(
    ("host", "is_open", "events"),
    [
        ("127.0.0.1", True, ["access"]),
        ("0.0.0.0", True, ["access", "every client may do everything"]),
        ("0.0.0.0", False, ["access"]),
    ],
)
def test_an_open_node_that_others_reach_is_warned_of(
    host: str, is_open: bool, events: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    node = World().node
    node.settings = replace(node.settings, node=replace(node.settings.node, http=Address(host, 7800)))
    node.access.is_open = is_open
    with caplog.at_level(logging.INFO):
        log_access(node)
    assert [record.message for record in caplog.records] == events
    assert vars(caplog.records[0])["auth"] == ("open" if is_open else "tokens")
    if len(events) == 2:
        assert vars(caplog.records[1])["listeners"] == ["node.http 0.0.0.0:7800"]
