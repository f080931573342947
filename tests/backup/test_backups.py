"""A backup from its beginning to its end: phases, blocks in order, one at a time, and the ways it ends."""

from collections.abc import Callable

import pytest

from epoxy.backup import backups
from epoxy.backup.backups import Backup, Backups, BlockAnswer
from epoxy.backup.format import Kind, decode_block
from epoxy.model.writes import Outcome, Write
from tests.node.members.town import Town


class Office:
    def __init__(self) -> None:
        self.town = Town((1, 2, 3))
        node = self.town.lives[1].node
        assert node.member is not None
        outcomes: list[Outcome] = []
        for number in range(40):
            write = Write(key=b"%02d" % number, value=bytes(100_000))
            self.town.lives[number % 3 + 1].node.write(write, outcomes.append)
        self.town.until(lambda: len(outcomes) == 40, "written")
        self.backups = Backups(node.member, self.town.stores[1], self.town.lives[1], "", node.datacenter_of)

    def ready(self) -> Backup:
        backup = self.backups.begin()
        self.town.until(lambda: backup.phase not in ("settling", "executing", "cutting"), "ready or failed")
        return backup

    def block(self, backup: Backup, number: int) -> BlockAnswer:
        taken: list[BlockAnswer] = []
        backup.block(number, taken.append)
        self.town.until(lambda: bool(taken), f"block {number}")
        return taken[0]


@pytest.fixture
def office() -> Office:
    return Office()


def test_all_blocks_in_order_and_the_last_one_again(office: Office) -> None:
    backup = office.ready()
    keys: list[bytes] = []
    number = 0
    while isinstance(block := office.block(backup, number), bytes):
        assert office.block(backup, number) == block, "its answer may have been lost"
        found = decode_block(block)
        assert found.kind is Kind.KEYS
        keys += [key for key, _ in found.records]
        number += 1
    assert block is None
    assert office.block(backup, number) is None
    assert (keys, number) == ([b"%02d" % each for each in range(40)], 4)
    state = backup.state()
    assert (state.phase, state.written, state.missing, state.asked) == ("done", 40, (), (1, 2, 3))
    assert [member.datacenter for member in state.members] == ["dc-1", "dc-2", "dc-3"]


def test_blocks_are_not_skipped_and_not_kept(office: Office) -> None:
    backup = office.ready()
    assert office.block(backup, 1) == "blocks are given in order: 0 is next, not 1"
    for number in range(3):
        assert isinstance(office.block(backup, number), bytes)
    assert office.block(backup, 0) == "blocks are given in order: 3 is next, not 0"
    assert office.block(backup, 4) == "blocks are given in order: 3 is next, not 4"
    office.town.run(500)
    assert backup.state().written <= 40
    assert len(backup._made) <= 2, "memory is bounded"


def test_one_at_a_time(office: Office) -> None:
    first = office.backups.begin()
    assert office.backups.running == first.id
    office.backups.end("it was ended")
    assert office.backups.running is None
    assert office.backups.find(first.id) is None
    second = office.ready()
    assert office.backups.find(second.id) is second
    assert isinstance(office.block(second, 0), bytes)


def test_it_ends_when_its_reader_is_silent(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute of three whole nodes takes long even in virtual time."""
    assert (backups.SILENCE_MS, backups.LOOK_MS) == (60_000, 5_000)
    monkeypatch.setattr(backups, "SILENCE_MS", 1_000.0)
    monkeypatch.setattr(backups, "LOOK_MS", 50.0)
    backup = office.ready()
    office.town.run(900)
    assert office.backups.find(backup.id) is backup
    office.town.run(900)
    assert backup.phase == "ready"
    office.town.run(300)
    assert (backup.phase, backup.reason) == ("failed", "nothing was asked for a minute")
    assert office.backups.find(backup.id) is None


def test_too_few_members_fail_it_with_their_names(office: Office) -> None:
    for each in (2, 3):
        office.town.kill(each)
    backup = office.ready()
    assert backup.phase == "failed"
    assert "dc-2 (replica 2) and dc-3 (replica 3)" in backup.reason
    assert office.block(backup, 0) == backup.reason
    assert office.backups.running is None


def test_blocks_are_asked_for_when_it_is_ready(office: Office) -> None:
    backup = office.backups.begin()
    assert office.block(backup, 0) == "it is settling; blocks come when it is ready"


def test_an_end_while_it_gathers_and_while_a_reader_waits(office: Office) -> None:
    gathering = office.backups.begin()
    office.backups.end("the node is stopping")
    office.town.run(500)
    assert (gathering.phase, gathering.reason) == ("failed", "the node is stopping")
    backup = office.ready()
    assert isinstance(office.block(backup, 0), bytes)
    waiting: list[BlockAnswer] = []
    stuck: list[Callable[..., None]] = []
    backup._stream.next = lambda done, _failed: stuck.append(done)  # type: ignore[union-attr, method-assign]
    backup.block(1, waiting.append)
    backup.block(2, waiting.append)
    office.backups.end("the node is stopping")
    assert waiting[-1] == "the node is stopping"


def test_a_store_that_cannot_be_read_fails_it(office: Office) -> None:
    backup = office.ready()
    backup._broke(ValueError("a rotten row"))
    assert backup.reason == "the store could not be read: a rotten row"
