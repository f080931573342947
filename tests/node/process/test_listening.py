"""Ports that cannot be opened: which error, and in which words."""

import asyncio
import errno
import os

import pytest

from epoxy.model.address import Address
from epoxy.model.errors import CannotListen, ConfigError, EpoxyError
from epoxy.node.process.listening import check_address, listen

HERE = Address("127.0.0.1", 7)


async def failing(error: OSError) -> None:
    raise error


async def opened() -> str:
    return "listening"


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (OSError(errno.EADDRINUSE, "wrapped by the loop"), CannotListen, os.strerror(errno.EADDRINUSE)),
        (OSError(errno.EADDRNOTAVAIL, "x"), ConfigError, "it is not an address of this machine"),
        (OSError(errno.EACCES, "x"), ConfigError, os.strerror(errno.EACCES)),
        (OSError(-2, "Name or service not known"), ConfigError, "Name or service not known"),
    ],
)
def test_a_port_that_cannot_be_opened_names_its_setting(error: OSError, kind: type[EpoxyError], reason: str) -> None:
    with pytest.raises(EpoxyError) as refused:
        asyncio.run(listen("node.http", HERE, failing(error)))
    assert type(refused.value) is kind
    assert str(refused.value) == f"node.http: cannot listen on 127.0.0.1:7: {reason}"


def test_a_port_that_opens_is_returned() -> None:
    assert asyncio.run(listen("node.http", HERE, opened())) == "listening"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 70])
def test_a_host_name_that_is_not_found_is_a_wrong_setting(host: str) -> None:
    with pytest.raises(ConfigError, match=f"^node.resp: cannot listen on {host}:7: "):
        check_address("node.resp", Address(host, 7))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "localhost"])
def test_an_address_and_a_known_name_are_fine(host: str) -> None:
    check_address("node.http", Address(host, 0))
