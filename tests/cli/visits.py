"""Statuses of nodes as `epoxy doctor` gets them."""

from typing import Any

import msgspec

from epoxy.cli.findings import NodeVisit
from epoxy.client import Status
from tests.client.fake import STATUS


def visit(url: str = "http://127.0.0.1:1", **change: Any) -> NodeVisit:
    return NodeVisit(url=url, status=msgspec.convert(STATUS | {"url": url} | change, Status))


def peers(**change: Any) -> list[dict[str, Any]]:
    return [{"id": 2, "datacenter": "eu-west-1", "rtt_ms": 70.0, "reachable": True, "url": "http://b:7800"} | change]


def away(state: str) -> NodeVisit:
    """Somebody who has no say, and so may be in any epoch."""
    return visit(id=9, epoch=7, ready=False, state=state, tolerated_failures=-2, reason="why not", url="http://[::1]:9")


HEALTHY = [visit(), visit(id=2), visit(id=3)]
