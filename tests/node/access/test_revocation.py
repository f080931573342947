"""What was revoked is refused by every machine that reaches a quorum, within the bound, whatever was lost; and each
rule that brings this about is needed."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from epoxy.model.errors import CodecError
from epoxy.model.records import Proposal
from epoxy.model.writes import ReadFailed, ReadOutcome
from epoxy.node.access.control import AccessControl
from epoxy.node.access.table_record import decode_table
from epoxy_sim.simulation import Violation
from tests.node.access.revocations import Town

SEEDS = range(24)

FAULT_SEEDS = range(72)
"""Until the first that finds it. Of a hundred runs ten bring older news."""


@pytest.mark.parametrize("seed", SEEDS)
def test_revoked_everywhere_within_the_bound(seed: int) -> None:
    Town(seed).play()


def nothing(_: AccessControl) -> None: ...


def adopts_anything(access: AccessControl, committed: Proposal) -> None:
    """Without the rule that news only go forward."""
    with suppress(CodecError):
        access.table, access.version = decode_table(committed.value), committed.version
        access._renew()


def learns_without_adopting(access: AccessControl, outcome: ReadOutcome) -> None:
    """What a read found is taken for known as soon as the store has it."""
    access._polls -= 1
    if not isinstance(outcome, ReadFailed):
        access.confirmed_ms = access._clock.now_ms()
        if outcome.committed is not None and outcome.committed.version < access._replica.version(b"\xff/access"):
            access._adopt(outcome.committed)


def opens(access: AccessControl, committed: Proposal) -> None:
    try:
        adopt(access, committed)
        decode_table(committed.value)
    except CodecError:
        access.is_open = True


adopt = AccessControl._adopt

FAULTS: dict[str, tuple[str, Callable[..., None]]] = {
    "no-poll": ("_poll", nothing),
    "grants-forgotten-at-restart": ("_load", nothing),
    "older-news-adopted": ("_adopt", adopts_anything),
    "what-is-read-is-not-adopted": ("_polled", learns_without_adopting),
    "open-when-unreadable": ("_adopt", opens),
    "ends-ignored": ("_end_what_is_over", nothing),
    "votes-left-open": ("_settle", nothing),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AccessControl, *FAULTS[fault])
    for seed in FAULT_SEEDS:
        try:
            Town(seed).play()
        except (AssertionError, Violation):
            return
    pytest.fail(f"{fault}: {len(FAULT_SEEDS)} runs, and nothing was noticed")
