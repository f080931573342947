"""The grants in force at one node: learned, missed, caught up with, ended, unreadable."""

import pytest

from epoxy.model.access import ACCESS_KEY, AccessRole, AccessTable, Grant, TokenDigest
from epoxy.model.cluster import first_epoch
from epoxy.model.errors import InvalidRequest
from epoxy.model.messages import Commit, Read, ReadOk
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.writes import Refused
from epoxy.node.access.control import FIRST_POLL_MS, MAX_TRIES, POLL_MS, POLLS_UNDER_WAY, AccessControl, Edited
from epoxy.node.access.table_record import encode_table
from epoxy.protocol.access.grants import with_grant, without_grant
from epoxy.protocol.access.tokens import digest_of, token_of
from tests.node.bench import Node
from tests.protocol.keys.harness import A, B, C, FixedDice

TOKEN = token_of(bytes(32)).encode()
OTHER = token_of(bytes([1] * 32)).encode()
NOW_S = 1_000_000


def grant(name: str = "ci", token: bytes = TOKEN, *, expires_s: int = 0) -> Grant:
    return Grant(
        name=name,
        roles=(AccessRole.WRITER,),
        digests=(TokenDigest(sha256=digest_of(token)),),
        expires_s=expires_s,
    )


def table(*grants: Grant) -> AccessTable:
    return AccessTable(grants=grants)


def committed(value: bytes | None, version: int = 1) -> Proposal:
    return Proposal(value=value, version=version, mutable=True, proposal_id=ProposalId(B, version))


class Desk:
    """One replica of `members`, whose clocks, disk and network are moved by hand."""

    def __init__(self, *members: int, is_open: bool = False, contents: dict[bytes, bytes] | None = None) -> None:
        self.node = Node(config=first_epoch(members or (A,)), contents=contents)
        self.alarms: list[str] = []
        self.began_s = float(NOW_S)
        self.access = AccessControl(
            self.node.driver,
            self.node.store,
            FixedDice(),
            self.alarms.append,
            is_open=is_open,
            unix_s=lambda: self.began_s + self.node.clock.now / 1000,
        )
        self.edited: list[Edited] = []

    def learn(self, value: bytes | None, version: int = 1, *, durable: bool = True) -> None:
        commit = Commit(key=ACCESS_KEY, epoch=1, proposal=committed(value, version))
        self.node.replica.handle([commit], lambda _: None)
        if durable:
            self.node.disk.sync()

    def answer_polls(self, newest: Proposal | None) -> int:
        """Peer B answers all reads with this; how many there were."""
        sent, self.node.transport.sent = self.node.transport.sent, []
        reads = [each for each in sent if isinstance(each.requests[-1], Read)]
        for each in reads:
            if each.to == B:
                each.answer(ReadOk(committed=newest, vote=None))
        self.node.disk.sync()
        return len([each for each in reads if each.to == B])


def test_nothing_is_granted_before_there_is_a_table() -> None:
    desk = Desk()
    assert (desk.access.of_token(TOKEN), desk.access.of_name("ci"), desk.access.version) == (None, None, 0)


def test_a_commit_is_in_force_when_it_is_durable_and_clients_are_looked_up_again() -> None:
    desk = Desk()
    before = desk.access.generation
    desk.learn(encode_table(table(grant())), durable=False)
    assert desk.access.of_token(TOKEN) is None
    desk.node.disk.sync()
    found = desk.access.of_token(TOKEN)
    assert found is not None
    assert (found.name, desk.access.version, desk.access.of_name("ci")) == ("ci", 1, found)
    assert desk.access.generation > before
    desk.learn(encode_table(table()), 2)
    assert (desk.access.of_token(TOKEN), desk.access.of_name("ci"), desk.access.version) == (None, None, 2)


def test_what_is_no_token_is_nothing() -> None:
    desk = Desk()
    desk.learn(encode_table(table(grant())))
    assert [desk.access.of_token(each) for each in (b"", TOKEN[:-1], TOKEN + b"x", OTHER)] == [None] * 4


def test_news_that_come_late_change_nothing() -> None:
    desk = Desk()
    desk.learn(encode_table(table()), 2)
    generation = desk.access.generation
    desk.access._adopt(committed(encode_table(table(grant())), 1))
    assert (desk.access.of_token(TOKEN), desk.access.generation) == (None, generation)


def test_the_table_is_there_at_the_next_start() -> None:
    desk = Desk()
    desk.learn(encode_table(table(grant())))
    kept = dict(desk.node.store.durable().range(b"", b"\xff", limit=100))
    again = Desk(contents=kept)
    assert again.access.of_token(TOKEN) is not None


@pytest.mark.parametrize("value", [None, b"", b"\x02", b"\x01", b"\x01\xc0", encode_table(table(grant())) + b"\x00"])
def test_a_value_that_cannot_be_read_is_an_alarm_and_changes_nothing(value: bytes | None) -> None:
    desk = Desk()
    desk.learn(encode_table(table(grant())))
    generation = desk.access.generation
    desk.learn(value, 2)
    assert desk.access.of_token(TOKEN) is not None
    assert desk.access.of_token(OTHER) is None
    assert (desk.access.generation, desk.access.version, desk.access.is_open) == (generation, 1, False)
    assert len(desk.alarms) == 1
    desk.access._adopt(committed(value, 2))
    assert len(desk.alarms) == 1, "once for each version"
    desk.learn(encode_table(table()), 3)
    assert desk.access.of_token(TOKEN) is None


def test_a_missed_commit_is_found_by_reading_and_kept_for_the_next_start() -> None:
    desk = Desk(A, B, C)
    desk.learn(encode_table(table(grant())))
    desk.access.start()
    assert desk.answer_polls(committed(encode_table(table(grant())))) == 1
    assert desk.access.of_token(TOKEN) is not None
    desk.node.clock.advance(1.5 * POLL_MS)
    assert desk.answer_polls(committed(encode_table(table()), 2)) >= 1
    assert (desk.access.of_token(TOKEN), desk.access.version) == (None, 2)
    assert desk.node.replica.version(ACCESS_KEY) == 2


def test_reading_syncs_nothing_as_long_as_nothing_changes() -> None:
    desk = Desk(A, B, C)
    value = committed(encode_table(table(grant())))
    desk.learn(value.value)
    desk.access.start()
    position, generation = desk.node.store.newest_stamp(), desk.access.generation
    for _ in range(20):
        desk.answer_polls(value)
        assert not desk.node.disk.flushes
        desk.node.clock.advance(1.5 * POLL_MS)
    assert (desk.node.store.newest_stamp(), desk.access.generation) == (position, generation)


def test_a_node_that_is_open_reads_nothing_and_follows_commits() -> None:
    desk = Desk(A, B, C, is_open=True)
    desk.access.start()
    desk.node.clock.advance(60_000)
    assert desk.node.transport.sent == []
    desk.learn(encode_table(table(grant())))
    assert desk.access.version == 1


def test_after_a_start_it_reads_more_often_until_a_quorum_has_answered() -> None:
    desk = Desk(A, B, C)
    desk.access.start()
    desk.node.clock.advance(2 * FIRST_POLL_MS)
    asked = [each for each in desk.node.transport.sent if isinstance(each.requests[-1], Read) and each.to == B]
    assert len(asked) == POLLS_UNDER_WAY, "and no more than two are under way"
    assert desk.access.confirmed_ms is None
    desk.answer_polls(None)
    assert desk.access.confirmed_ms is not None


def test_without_a_quorum_it_goes_on_with_what_it_knows() -> None:
    desk = Desk(A, B, C)
    desk.learn(encode_table(table(grant())))
    desk.access.start()
    desk.node.clock.advance(300_000)
    assert desk.access.of_token(TOKEN) is not None
    assert desk.access.confirmed_ms is None


def test_a_grant_ends_by_the_clock_and_those_who_came_with_it_are_looked_up_again() -> None:
    desk = Desk()
    desk.learn(encode_table(table(grant(expires_s=NOW_S + 3), grant("other", OTHER))))
    desk.access.start()
    generation = desk.access.generation
    desk.node.clock.advance(2_900)
    assert desk.access.of_token(TOKEN) is not None
    assert desk.access.generation == generation
    desk.node.clock.advance(200)
    assert desk.access.of_token(TOKEN) is None
    assert desk.access.of_token(OTHER) is not None
    assert desk.access.generation > generation


def test_a_clock_that_jumps_ends_grants_within_one_pause() -> None:
    desk = Desk()
    desk.learn(encode_table(table(grant(expires_s=NOW_S + 86_400))))
    desk.access.start()
    desk.began_s += 90_000
    desk.node.clock.advance(1.5 * POLL_MS)
    assert desk.access.of_token(TOKEN) is None


def test_nothing_goes_on_after_the_end() -> None:
    desk = Desk()
    desk.access.start()
    desk.access.stop()
    assert desk.node.clock.pending == []


def change(desk: Desk, made: Grant) -> Edited:
    desk.access.change(lambda before: with_grant(before, made), desk.edited.append)
    desk.node.disk.sync()
    return desk.edited[-1]


def test_a_change_is_one_commit_and_in_force_when_it_is_answered() -> None:
    desk = Desk()
    assert change(desk, grant()) == table(grant())
    assert desk.access.of_token(TOKEN) is not None
    assert (desk.access.version, desk.node.replica.version(ACCESS_KEY)) == (1, 1)
    desk.access.change(lambda before: without_grant(before, "ci"), desk.edited.append)
    desk.node.disk.sync()
    assert desk.edited[-1] == table()
    assert (desk.access.of_token(TOKEN), desk.access.version) == (None, 2)


def test_a_change_that_is_not_allowed_writes_nothing() -> None:
    desk = Desk()
    change(desk, grant())
    refused = change(desk, grant())
    assert isinstance(refused, InvalidRequest)
    assert desk.node.replica.version(ACCESS_KEY) == 1


def test_another_change_in_between_is_not_lost() -> None:
    desk = Desk()
    tried = 0

    def edit(before: AccessTable) -> AccessTable:
        nonlocal tried
        tried += 1
        if tried == 1:
            desk.learn(encode_table(table(grant())))
        return with_grant(before, grant("other", OTHER))

    desk.access.change(edit, desk.edited.append)
    desk.node.disk.sync()
    assert desk.edited == [table(grant(), grant("other", OTHER))]


def test_too_many_changes_at_once_are_refused() -> None:
    desk = Desk()
    tried = 0

    def edit(before: AccessTable) -> AccessTable:
        nonlocal tried
        tried += 1
        desk.learn(encode_table(before), tried)
        return with_grant(before, grant())

    desk.access.change(edit, desk.edited.append)
    desk.node.disk.sync()
    assert tried == MAX_TRIES
    assert desk.edited == [Refused(reason="others change the grants at the same time")]


def test_what_cannot_be_read_is_not_overwritten() -> None:
    desk = Desk()
    desk.learn(b"\x09")
    refused = change(desk, grant())
    assert isinstance(refused, Refused)
    assert "format 09" in refused.reason
    assert desk.node.replica.version(ACCESS_KEY) == 1


def test_without_a_quorum_a_change_is_refused() -> None:
    desk = Desk(A, B, C)
    desk.access.change(lambda before: before, desk.edited.append)
    desk.node.clock.advance(600_000)
    (refused,) = desk.edited
    assert isinstance(refused, Refused)
