"""Wrong tokens: how long their refusals wait, what is remembered of them, and what the log says."""

import logging

import pytest

from epoxy.node.access import guesses
from epoxy.node.access.guesses import (
    FIRST_DELAY_S,
    FORGET_S,
    FREE_GUESSES,
    LOG_LINES,
    MAX_DELAY_S,
    MAX_NETWORKS,
    MAX_REMEMBERED,
    Guesses,
    network_of,
)


class Hands:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_the_first_guesses_are_free_and_the_delay_doubles_up_to_a_bound() -> None:
    seen = Guesses(Hands())
    delays = [seen.wrong("10.0.0.1:1", "ci") for _ in range(FREE_GUESSES + 12)]
    assert delays[:FREE_GUESSES] == [0.0] * FREE_GUESSES
    assert delays[FREE_GUESSES : FREE_GUESSES + 3] == [FIRST_DELAY_S, 2 * FIRST_DELAY_S, 4 * FIRST_DELAY_S]
    assert delays[-1] == MAX_DELAY_S == max(delays)
    assert seen.wrong_total == FREE_GUESSES + 12
    assert seen.slowed_total == 12


def test_each_address_has_its_own_count_whatever_its_port() -> None:
    seen = Guesses(Hands())
    for port in range(100):
        seen.wrong(f"10.0.0.1:{port}", "")
    assert seen.wrong("10.0.0.1", "") == MAX_DELAY_S
    assert seen.wrong("10.0.0.2:1", "") == 0.0


def test_guesses_are_forgotten_with_time_and_at_most_so_many_are_remembered() -> None:
    now = Hands()
    seen = Guesses(now)
    for _ in range(10_000):
        seen.wrong("10.0.0.1:1", "")
    now.at = (MAX_REMEMBERED - FREE_GUESSES + 1) * FORGET_S
    assert seen.wrong("10.0.0.1:1", "") == 0.0
    assert seen.wrong("10.0.0.1:1", "") == FIRST_DELAY_S


def test_memory_is_bounded_and_the_latest_addresses_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guesses, "MAX_NETWORKS", 10)
    seen, last = Guesses(Hands()), 0.0
    for number in range(1_000):
        seen.wrong(f"10.0.{number // 256}.{number % 256}:1", "")
        for _ in range(FREE_GUESSES):
            last = seen.wrong("10.9.9.9:1", "")
    assert seen.networks == 10
    assert last == MAX_DELAY_S
    assert MAX_NETWORKS > 10


def test_the_log_names_address_and_grant_and_a_flood_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = Hands()
    seen = Guesses(now)
    with caplog.at_level(logging.WARNING):
        for _ in range(LOG_LINES + 30):
            seen.wrong("10.0.0.1:99", "ci")
        now.at = guesses.LOG_LINES_S
        seen.wrong("10.0.0.1:99", "ci")
    assert len(caplog.records) == LOG_LINES + 1
    first, last = vars(caplog.records[0]), vars(caplog.records[-1])
    assert (first["address"], first["grant"]) == ("10.0.0.1:99", "ci")
    assert last["unlogged"] == 30


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3:80", "10.1.2.3"),
        ("10.1.2.3", "10.1.2.3"),
        ("[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("[fe80::1%eth0]:80", "fe80::/64"),
        ("[::ffff:10.1.2.3]:80", "10.1.2.3"),
        ("", ""),
        ("/run/epoxy.sock", "/run/epoxy.sock"),
    ],
)
def test_what_counts_as_one_address(address: str, network: str) -> None:
    assert network_of(address) == network
