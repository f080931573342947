"""The rules of a store that several nodes share, as tests that take the store and the tables on trial.

`test_store.py` runs them over the real ones, and over others with one planted fault each.
"""

from collections.abc import Callable

from epoxy.codec import wire
from epoxy.codec.tuple import strinc
from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.errors import StoreFailed
from epoxy.model.records import CommittedRecord, Proposal, ProposalId
from epoxy.model.shards import ALL_SHARDS, shard_of
from epoxy.ports import KeyValue, Snapshot, StoreCut
from epoxy.store.keyspace import Keyspace
from epoxy.store.shared.row_shards import RowShards
from epoxy.store.shared.store import CACHE_BYTES, SharedStore
from epoxy_sim.datacenter.memory_database import DatabaseTables, Statement
from tests.store.shared.shared_bench import REPLICA, Life, SharedServer

CONFIG_ROW = Keyspace(REPLICA).value_row(CONFIG_KEY)
LAST = b"\xff"


class Trial:
    """The kinds of which everything is made here."""

    def __init__(self, kind: type[SharedStore] = SharedStore, tables: type[DatabaseTables] = DatabaseTables) -> None:
        self.server = SharedServer(tables)
        self._kind = kind

    def open(self, cache_bytes: int = CACHE_BYTES, layout: RowShards | None = None) -> Life:
        """A node that takes over everything from those whose lease is over."""
        return Life(self.server, self._kind, cache_bytes=cache_bytes, layout=layout)

    def stored(self, key: bytes) -> bytes | None:
        return self.server.tables.rows.get(key)


def is_over(life: Life) -> bool:
    try:
        life.store.newest()
    except StoreFailed:
        return True
    return False


def configuration(epoch: int) -> bytes:
    config = Proposal(value=b"config", version=epoch, mutable=True, proposal_id=ProposalId(1, epoch))
    return wire.encode_committed_record(CommittedRecord(committed=config))


def all_rows(view: Snapshot) -> list[KeyValue]:
    return list(view.range(b"", LAST, limit=100))


def refuses(life: Life, use: str) -> bool:
    uses: dict[str, Callable[[], object]] = {
        "newest": lambda: life.store.newest().get(b"k"),
        "durable": lambda: life.store.durable().get(b"k"),
        "begin": lambda: life.store.begin().get(b"k"),
        "put": lambda: life.store.put({b"k": b"late"}, None),
    }
    try:
        uses[use]()
    except StoreFailed:
        return True
    return False


class StoreRules:
    # Batches.

    def test_one_batch_is_executed_at_a_time_and_commits_meanwhile_share_the_next(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"k": b"0"}, None)
        life.run()
        life.store.put({b"k": b"1"}, None)
        first = life.statement()
        for value in (b"2", b"3"):
            life.store.put({b"k": value, b"l" + value: value}, None)
            assert life.under_way() == []
        first.run()
        assert trial.stored(b"k") == b"1"
        first.answer()
        assert life.under_way() == ["flush", "load"], "rows that were never read"
        life.flush()
        life.step()
        assert life.under_way() == ["commit"]
        life.step()
        assert (trial.stored(b"k"), trial.stored(b"l2"), trial.stored(b"l3")) == (b"3", b"2", b"3")
        assert life.under_way() == []

    def test_a_batch_is_executed_beside_the_flush_of_the_one_before_and_none_ahead_of_it(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"a": b"1"}, None)
        life.ask("1")
        commit = self.take(life, "commit")
        commit.run()
        commit.answer()
        flush = self.take(life, "flush")
        flush.run()
        life.store.put({b"a": b"2"}, None)
        life.ask("2")
        commit = self.take(life, "commit")
        commit.run()
        commit.answer()
        life.store.put({b"a": b"3"}, None)
        life.ask("3")
        assert life.under_way() == []
        assert (trial.stored(b"a"), life.store.durable().get(b"a"), life.heard) == (b"2", None, [])
        flush.answer()
        assert life.under_way() == ["flush", "commit"]
        assert (life.store.durable().get(b"a"), life.heard) == (b"1", ["1"])
        life.run()
        assert (life.store.durable().get(b"a"), life.heard) == (b"3", ["1", "2", "3"])

    def take(self, life: Life, name: str) -> Statement:
        """The statement of this kind that is on its way."""
        life.tick()
        (found,) = [each for each in life.statements if each.name == name]
        life.statements.remove(found)
        return found

    def test_a_batch_that_is_answered_as_durable_needs_no_flush(self, trial: Trial) -> None:
        """It answers those who asked before it: for a fence, and for the batch."""
        life = trial.open()
        trial.server.tables.flushes_batches = True
        life.ask("read")
        assert life.under_way() == ["fence"]
        life.store.put({b"a": b"1"}, (b"z", b"", b"v"))
        life.ask("written")
        commit = self.take(life, "commit")
        commit.run()
        life.store.put({b"a": b"2"}, None)
        life.ask("later")
        commit.answer()
        assert life.under_way() == ["fence", "commit"]
        assert (life.store.durable().get(b"a"), life.heard) == (b"1", ["read", "written"])
        assert (life.store.newest_stamp(), life.store.position()) == (1, 1)
        trial.server.crash()
        assert trial.stored(b"a") == b"1"
        life.run()
        assert (trial.stored(b"a"), life.heard) == (b"2", ["read", "written", "later"])

    def test_a_flush_that_is_answered_after_a_later_batch_is_durable_ends_nothing(self, trial: Trial) -> None:
        life = trial.open()
        trial.server.tables.flushes_batches = True
        life.store.catch_up(lambda: life.heard.append("caught up"))
        flush = self.take(life, "flush")
        flush.run()
        life.store.put({b"a": b"1"}, None)
        life.ask("written")
        life.run()
        assert life.heard == ["written"]
        flush.answer()
        life.run()
        assert (life.fenced, life.heard) == ([], ["written", "caught up"])

    # Executed is not durable.

    def test_a_flush_that_began_before_a_batch_was_executed_does_not_count_for_it(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"a": b"1"}, None)
        commit = life.statement()
        commit.run()
        commit.answer()
        early = self.take(life, "flush")
        early.run()
        life.store.put({b"b": b"2"}, None)
        life.ask("late")
        life.run_until("commit")
        late = self.take(life, "commit")
        late.run()
        late.answer()
        early.answer()
        life.tick()
        assert (life.heard, life.store.durable().get(b"b")) == ([], None)
        trial.server.crash()
        assert trial.stored(b"b") is None
        life.run()
        assert (life.heard, trial.stored(b"b")) == (["late"], b"2")

    def test_batches_that_a_crash_has_undone_are_executed_again_in_their_order(self, trial: Trial) -> None:
        """Found by the flush, or by the next batch; each is there once, with stamps that are given anew."""
        for found_by in ("flush", "commit"):
            life, start = trial.open(), trial.server.tables.sequence
            life.store.put({b"a": b"0"}, (b"log/", b"", b"0"))
            life.run()
            for number in (b"1", b"2"):
                life.store.put({b"a": number}, (b"log/", b"", number))
                life.ask(number.decode())
                commit = self.take(life, "commit")
                commit.run()
                commit.answer()
            flush = self.take(life, "flush")
            trial.server.crash()
            assert trial.stored(b"a") == b"0"
            life.store.put({b"a": b"3"}, (b"log/", b"", b"3"))
            life.ask("3")
            if found_by == "flush":
                flush.run()
                flush.answer()
                assert life.heard == []
            else:
                flush.lose()
            life.run()
            assert (life.heard, trial.stored(b"a")) == (["1", "2", "3"], b"3")
            assert [value for _, value in life.store.durable().range(b"log/", b"log0", limit=9)] == [
                *(b"0", b"1", b"2", b"3") * (1 + (found_by == "commit"))
            ]
            assert trial.server.tables.sequence == start + 4
            assert life.fenced == []
            trial.server.let_leases_end()

    def test_an_answer_from_before_a_crash_does_not_count(self, trial: Trial) -> None:
        """The batch was executed by the server that crashed, and its answer came after the next server's."""
        life = trial.open()
        life.store.put({b"a": b"1"}, None)
        first = life.statement()
        first.run()
        first.answer()
        life.store.put({b"a": b"2"}, None)
        life.ask("2")
        second = self.take(life, "commit")
        second.run()
        trial.server.crash()
        life.flush()
        second.answer()
        life.tick()
        assert (trial.stored(b"a"), life.heard) == (None, [])
        life.run()
        assert (trial.stored(b"a"), life.heard, life.fenced) == (b"2", ["2"], [])

    def test_what_was_read_of_a_batch_that_is_lost_is_told_when_it_is_durable(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"a": b"1"}, None)
        commit = life.statement()
        commit.run()
        life.ask("read")
        commit.answer()
        trial.server.crash()
        life.flush()
        life.tick()
        assert (life.heard, trial.stored(b"a")) == ([], None)
        life.run()
        assert (life.heard, trial.stored(b"a")) == (["read"], b"1")

    def test_a_flush_that_is_asked_for_again_after_a_loss_does_not_tell_what_was_lost(self, trial: Trial) -> None:
        """Its connection is lost with the server, and the next batch is the first to find the new one."""
        life = trial.open()
        life.store.put({b"a": b"1"}, None)
        commit = life.statement()
        commit.run()
        life.ask("read")
        commit.answer()
        flush = self.take(life, "flush")
        life.store.put({b"a": b"2"}, None)
        late = self.take(life, "commit")
        trial.server.crash()
        flush.lose()
        late.run()
        late.answer()
        lost = self.take(life, "commit")
        life.rest()
        life.flush()
        life.tick()
        assert (life.heard, trial.stored(b"a")) == ([], None)
        lost.run()
        lost.answer()
        life.run()
        assert (life.heard, trial.stored(b"a")) == (["read"], b"2")

    def test_a_session_whose_durable_batches_are_not_there_is_over(self, trial: Trial) -> None:
        for writes in (False, True):
            life = trial.open()
            life.store.put({b"a": b"1"}, None)
            life.run()
            if writes:
                life.store.put({b"a": b"2"}, None)
            else:
                life.store.catch_up(lambda: None)
            trial.server.tables.sessions[life.session].batch = 0
            life.run()
            assert (len(life.fenced), is_over(life)) == (1, True)
            trial.server.let_leases_end()

    def test_a_lost_batch_of_an_old_configuration_is_void(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"a": b"1"}, None)
        life.ask("1")
        commit = life.statement()
        commit.run()
        commit.answer()
        trial.server.crash()
        trial.server.tables.config_epoch = 1
        life.store.config_epoch = 1
        life.run()
        assert (life.heard, len(life.fenced), trial.stored(b"a")) == ([], 1, None)

    def test_rows_of_others_are_shown_when_a_crash_cannot_undo_them(self, trial: Trial) -> None:
        reader, writer = trial.open(), Life(trial.server, shards=())
        trial.server.tables.shards[shard_of(b"k")].owner = writer.session
        reader.store.disown((shard_of(b"k"),))
        writer.store.own((shard_of(b"k"),), lambda: None)
        reads: tuple[Callable[[Snapshot], object], ...] = (lambda view: view.get(b"k"), all_rows)
        for value, read in zip((b"1", b"2"), reads, strict=True):
            writer.store.put({b"k": value}, None)
            writer.run_until("commit")
            writer.statement().run()
            assert trial.server.tables.unflushed
            assert value in repr(read(reader.store.durable())).encode()
            assert not trial.server.tables.unflushed
            writer.statements.clear()
            writer = Life(trial.server, shards=(shard_of(b"k"),))

    def test_the_changelog_is_shown_up_to_what_is_known_to_be_durable(self, trial: Trial) -> None:
        reader, writer = trial.open(layout=RowShards(REPLICA)), Life(trial.server, shards=())
        prefix = Keyspace(REPLICA)._changelog

        def shown() -> list[bytes]:
            return [value for _, value in reader.store.durable().range(prefix, strinc(prefix), limit=9)]

        for number in (b"1", b"2"):
            writer.store.put({}, (prefix, b"", number))
            commit = writer.statement()
            commit.run()
            commit.answer()
            assert shown() == [b"1"][: number == b"2"]
            assert trial.server.tables.unflushed, "nothing waits for the disk"
            writer.flush()
            reader.store.catch_up(lambda: None)
            reader.run()
            assert shown() == [b"1", b"2"][: int(number)]

    def test_nothing_is_told_before_the_batch_is_durable(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"a": b"1"}, None)
        life.ask("a")
        for name in ("commit", "flush"):
            statement = life.statement()
            assert (statement.name, life.heard, life.store.durable().get(b"a")) == (name, [], None)
            statement.run()
            life.tick()
            assert life.heard == [], "its outcome is not known here yet"
            statement.answer()
        life.tick()
        assert (life.heard, life.store.durable().get(b"a")) == (["a"], b"1")

    def test_a_batch_of_unknown_outcome_is_sent_again_and_applied_once(self, trial: Trial) -> None:
        for took_effect in (False, True):
            life = trial.open()
            sequence = trial.server.tables.sequence
            life.store.put({b"a": b"1"}, (b"log/", b"", b"logged"))
            life.ask("a")
            commit = life.statement()
            if took_effect:
                commit.run()
            commit.lose()
            assert life.under_way() == [], "after a pause"
            life.rest()
            assert life.heard == []
            life.step()
            life.tick()
            assert life.heard == ["a"]
            assert trial.server.tables.sequence == sequence + 1 == life.store.newest_stamp()
            assert trial.stored(b"a") == b"1"
            trial.server.let_leases_end()

    def test_a_batch_that_arrives_late_is_not_applied_twice(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"a": b"1"}, (b"log/", b"", b"logged"))
        late = life.statement()
        late.lose()
        life.rest()
        life.step()
        life.store.put({b"a": b"2"}, None)
        life.step()
        late.run()
        assert (trial.stored(b"a"), trial.server.tables.sequence) == (b"2", 1)

    # The fence.

    def test_a_fenced_batch_writes_nothing_and_tells_nothing(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"k": b"old"}, None)
        life.run()
        trial.server.let_leases_end()
        next_life = trial.open()
        next_life.store.put({b"k": b"new"}, None)
        next_life.run()
        life.store.put({b"k": b"late"}, None)
        life.ask("late")
        life.run()
        assert trial.stored(b"k") == b"new"
        assert life.heard == []
        assert len(life.fenced) == 1

    def test_a_batch_under_way_when_the_session_is_fenced_writes_nothing(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"a": b"late"}, (b"log/", b"", b"late"))
        life.ask("late")
        commit = life.statement()
        trial.server.let_leases_end()
        trial.open()
        commit.run()
        commit.answer()
        assert (trial.stored(b"a"), trial.server.tables.sequence, life.heard) == (None, 0, [])
        assert len(life.fenced) == 1

    def test_what_was_read_is_told_after_a_fence_that_was_asked_for_later(self, trial: Trial) -> None:
        """A node that stood still past its lease: another has changed what it read."""
        life = trial.open()
        life.store.put({b"k": b"old"}, None)
        life.run()
        trial.server.let_leases_end()
        next_life = trial.open()
        next_life.store.put({b"k": b"new"}, None)
        next_life.run()
        value = life.store.newest().get(b"k")
        life.store.when_durable(lambda: life.heard.append(repr(value)))
        life.run()
        assert life.heard == []
        assert len(life.fenced) == 1

    def test_a_fence_that_began_before_the_question_does_not_answer_it(self, trial: Trial) -> None:
        life = trial.open()
        life.ask("early")
        early = life.statement()
        early.run()
        life.ask("late")
        assert life.under_way() == []
        early.answer()
        assert life.heard == ["early"]
        assert life.under_way() == ["fence"]
        life.step()
        assert life.heard == ["early", "late"]

    def test_a_flush_that_began_before_the_question_does_not_answer_it(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"a": b"1"}, None)
        life.ask("early")
        commit = life.statement()
        commit.run()
        commit.answer()
        flush = life.statement()
        flush.run()
        life.ask("late")
        flush.answer()
        assert life.heard == ["early"]
        life.step()
        assert life.heard == ["early", "late"]

    def test_many_questions_share_a_fence(self, trial: Trial) -> None:
        life = trial.open()
        for name in ("1", "2", "3"):
            life.ask(name)
        assert life.under_way() == ["fence"]
        life.step()
        assert life.heard == ["1", "2", "3"]

    def test_a_batch_answers_those_who_asked_before_it_first(self, trial: Trial) -> None:
        life = trial.open()
        life.ask("read")
        assert life.under_way() == ["fence"]
        life.store.put({b"a": b"1"}, None)
        life.ask("written")
        assert life.under_way() == ["fence", "commit"]
        fence = life.statement()
        life.step()
        assert life.heard == ["read", "written"]
        life.ask("later")
        fence.run()
        fence.answer()
        assert life.heard == ["read", "written"], "the fence began before the last question"
        life.run()
        assert life.heard == ["read", "written", "later"]

    def test_a_lost_fence_is_asked_for_again_in_order_after_a_pause(self, trial: Trial) -> None:
        life = trial.open()
        life.ask("1")
        life.statement().lose()
        life.ask("2")
        assert life.under_way() == [], "one pause, however many ask"
        assert len(life.pauses) == 1
        life.rest()
        life.step()
        assert life.heard == ["1", "2"]

    def test_a_write_need_not_wait_for_the_pause_of_a_fence(self, trial: Trial) -> None:
        life = trial.open()
        life.ask("1")
        life.statement().lose()
        life.store.put({b"a": b"1"}, None)
        life.ask("2")
        life.step()
        assert life.heard == ["1", "2"]
        life.rest()
        assert life.under_way() == []

    # After the end.

    def test_a_fenced_store_has_forgotten_everything(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"a": b"old", b"k": b"old"}, None)
        life.run()
        held = life.store.begin(), life.store.durable()
        life.store.put({b"l": b"pending"}, None)
        trial.server.let_leases_end()
        trial.open()
        life.run()
        assert is_over(life)
        assert all(refuses(life, use) for use in ("newest", "durable", "begin", "put"))
        for view in held:
            for key in (b"a", b"k", b"l"):
                try:
                    found = view.get(key)
                except StoreFailed:
                    continue
                raise AssertionError(f"{key!r} is remembered: {found!r}")

    def test_after_the_end_nothing_is_asked_and_no_one_is_called(self, trial: Trial) -> None:
        life = trial.open()
        life.ask("1")
        life.store.load([b"m"], lambda: life.heard.append("loaded"))
        cuts: list[StoreCut] = []
        life.store.cut(cuts.append)
        life.tick()
        statements = list(life.statements)
        life.store.close()
        assert {each.name for each in statements} == {"fence", "load"}
        for statement in statements:
            statement.run()
            statement.answer()
        life.statements.clear()
        life.store.load([b"m"], lambda: life.heard.append("loaded late"))
        life.run()
        assert (life.heard, cuts, life.fenced) == ([], [], [])

    # The configuration.

    def test_a_newer_configuration_ends_a_session_that_does_not_know_it(self, trial: Trial) -> None:
        for writes in (False, True):
            life = trial.open()
            trial.server.tables.config_epoch = life.store.config_epoch + 1
            if writes:
                life.store.put({b"a": b"1"}, None)
            life.ask("a")
            life.run()
            assert (life.heard, len(life.fenced), is_over(life)) == ([], 1, True)
            assert trial.stored(b"a") is None
            trial.server.let_leases_end()
            trial.server.tables.config_epoch = 0

    def test_a_configuration_learned_meanwhile_is_enough_for_what_was_read(self, trial: Trial) -> None:
        life = trial.open()
        life.ask("read")
        fence = life.statement()
        trial.server.tables.config_epoch = 1
        life.store.config_epoch = 1
        fence.run()
        fence.answer()
        life.run()
        assert (life.heard, life.fenced) == (["read"], [])

    def test_what_was_committed_under_an_older_configuration_is_void(self, trial: Trial) -> None:
        """Also if the newer one is known by the time the batch is sent: the replica votes in the older one no more."""
        life = trial.open()
        life.store.put({b"a": b"early"}, None)
        life.ask("early")
        trial.server.tables.config_epoch = 1
        life.store.config_epoch = 1
        life.run()
        assert (life.heard, len(life.fenced), trial.stored(b"a")) == ([], 1, None)
        trial.server.let_leases_end()
        trial.server.tables.config_epoch = 0
        life = trial.open()
        trial.server.tables.config_epoch = 1
        life.store.config_epoch = 1
        life.store.put({b"a": b"late"}, None)
        life.ask("late")
        life.run()
        assert (life.heard, life.fenced, trial.stored(b"a")) == (["late"], [], b"late")

    def test_a_configuration_is_in_force_with_its_row(self, trial: Trial) -> None:
        gateway = trial.open(layout=RowShards(REPLICA))
        gateway.store.put({CONFIG_ROW: configuration(7)}, None)
        gateway.run()
        assert trial.server.tables.config_epoch == 7
        gateway.ask("knows what it wrote")
        gateway.run()
        assert gateway.heard == ["knows what it wrote"]
        trial.server.let_leases_end()
        next_gateway = trial.open(layout=RowShards(REPLICA))
        assert next_gateway.store.config_epoch == 7
        next_gateway.ask("knows what it loaded")
        next_gateway.run()
        assert next_gateway.heard == ["knows what it loaded"]

    # One sequence.

    def test_stamps_of_two_sessions_rise_in_the_order_of_their_commits(self, trial: Trial) -> None:
        first, second = trial.open(), Life(trial.server, shards=())
        trial.server.tables.shards[200].owner = second.session
        for number, life in enumerate((first, second, second, first)):
            life.store.put({}, (b"log/", b"", b"%d" % number))
            life.run()
        logged = first.store.newest().range(b"log/", b"log0", limit=9)
        assert [value for _, value in logged] == [b"0", b"1", b"2", b"3"]
        assert first.store.newest_stamp() == 4

    # Shards.

    def test_a_shard_that_is_handed_over_is_forgotten(self, trial: Trial) -> None:
        life = trial.open()
        life.store.put({b"a": b"1", b"k": b"1"}, None)
        life.run()
        life.store.disown(ALL_SHARDS)
        trial.server.tables.rows.apply({b"a": b"2", b"k": b"2"})
        assert [life.store.newest().get(key) for key in (b"a", b"k")] == [b"2", b"2"]
        trial.server.tables.rows.apply({b"k": b"3"})
        assert life.store.newest().get(b"k") == b"3", "rows of others are not kept"
        life.store.own(ALL_SHARDS, lambda: None)
        life.run()
        assert [life.store.newest().get(key) for key in (b"a", b"k")] == [b"2", b"3"]

    # Loads.

    def test_a_load_that_is_answered_after_a_write_does_not_bring_the_old_value_back(self, trial: Trial) -> None:
        """Not even if the new one was dropped from memory meanwhile."""
        life = trial.open(cache_bytes=0)
        trial.server.tables.rows.apply({b"k": b"old"})
        life.store.load([b"k"], lambda: life.heard.append("loaded"))
        load = life.statement()
        load.run()
        life.store.put({b"k": b"new"}, None)
        life.run()
        life.store.put({b"l": b"1", b"m": b"1"}, None)
        life.run()
        load.answer()
        assert life.heard == ["loaded"]
        assert life.store.newest().get(b"k") == b"new"

    def test_a_load_from_before_a_hand_over_is_not_kept(self, trial: Trial) -> None:
        life = trial.open()
        trial.server.tables.rows.apply({b"k": b"old"})
        life.store.load([b"k"], lambda: life.heard.append("loaded"))
        load = life.statement()
        load.run()
        life.store.disown(ALL_SHARDS)
        trial.server.tables.rows.apply({b"k": b"new"})
        life.store.own(ALL_SHARDS, lambda: None)
        life.run()
        load.answer()
        assert life.heard == ["loaded"]
        assert life.store.newest().get(b"k") == b"new"

    def test_durable_rows_are_those_before_the_batch_until_its_outcome_is_known(self, trial: Trial) -> None:
        """Also of a row that was written without having been read."""
        trial.server.tables.rows.apply({b"k": b"old"})
        life = trial.open(cache_bytes=0)
        view = life.store.begin()
        life.store.put({b"k": b"new", b"l": b"new"}, None)
        life.step()
        commit = life.statement()
        commit.run()
        assert trial.stored(b"k") == b"new"
        for durable in (view, life.store.durable()):
            assert (durable.get(b"k"), durable.get(b"l")) == (b"old", None)
            assert all_rows(durable) == [(b"k", b"old")]
        assert all_rows(life.store.newest()) == [(b"k", b"new"), (b"l", b"new")]
        commit.answer()
        assert all_rows(life.store.durable()) == [(b"k", b"old")]
        life.flush()
        assert all_rows(life.store.durable()) == [(b"k", b"new"), (b"l", b"new")]
        assert all_rows(view) == [(b"k", b"old")]
