"""Addresses as URLs have them."""

import pytest

from epoxy.model.address import Address


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address("127.0.0.1", 7800), "127.0.0.1:7800"),
        (Address("eu.example", 0), "eu.example:0"),
        (Address("::1", 7800), "[::1]:7800"),
    ],
)
def test_an_ipv6_host_is_in_brackets(address: Address, text: str) -> None:
    assert str(address) == text
