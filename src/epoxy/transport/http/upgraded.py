"""Connections that began with HTTP and go on with another protocol. In a module of its own because `exchange` is
compiled, and classes that are not cannot inherit from one that is."""

import asyncio

from epoxy.transport.holdings import Holdings


class UpgradedProtocol(asyncio.Protocol):
    """Takes over a connection that began with HTTP. `holdings`: of the node, from then on."""

    def __init__(self) -> None:
        self.holdings = Holdings()
