"""The backup a node is making, one at a time: gathers, cuts, and hands out its blocks.

    settling    open votes of others are settled, and their commits are compared with what is here
    executing   transactions that others know are executed here
    cutting     the store makes a checkpoint
    ready       blocks are handed out
    done        the last one was handed out
    failed      with a reason

It ends by itself when its reader is silent for a minute.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

from epoxy import __version__
from epoxy.backup.format import Kind
from epoxy.backup.stream import BackupStream, Here
from epoxy.model.api_backups import BackedUpMember, BackupPhase, BackupState
from epoxy.model.cluster import ClusterConfig
from epoxy.node.backup.gathering import Gathering
from epoxy.node.members.member import Membership
from epoxy.ports import Clock, Dice, Store, StoreCut, Timer
from epoxy.protocol.members.gather import GatherOutcome

SILENCE_MS, LOOK_MS = 60_000.0, 5_000.0
"""After so long without a request the backup ends; and how often that is checked."""

SHARE = 0.2
"""Of this node's time for making blocks, while its clients write. In quiet times they are made one after the other."""

LONGEST_REST_MS = 1_000.0

BlockAnswer = bytes | str | None
"""A block; None: there are no more; or why there is none."""


class Backup:
    """From its beginning to its end. `changed` is not called after `end`."""

    def __init__(
        self, backup_id: str, member: Membership, store: Store, cluster: str, datacenter_of: Callable[[int], str]
    ) -> None:
        self.id = backup_id
        self.phase: BackupPhase = "settling"
        self.reason = ""
        self.clock: Clock = member.clock
        self._member = member
        self._store = store
        self._cluster = cluster
        self._datacenter_of = datacenter_of
        self._gathering = Gathering(member, store)
        self._stream: BackupStream | None = None
        self._made_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._config: ClusterConfig = member.replica.config
        self._asked: tuple[int, ...] = ()
        self._absent: tuple[int, ...] = ()
        """Members whose rows of actors could not be had."""
        self._newest = self._given = -1
        """The numbers of the last blocks that were made and handed out."""
        self._made: dict[int, bytes | None] = {}
        """The one that was handed out last, for a reader that asks again, and the next one. None: the end."""
        self._making = False
        self._wanted: tuple[int, Callable[[BlockAnswer], None]] | None = None
        self._stamp = store.newest_stamp()
        self.heard_ms = self.clock.now_ms()

    def begin(self) -> None:
        self._gathering.actors(self._collected)

    def _collected(self, absent: tuple[int, ...]) -> None:
        self._absent = absent
        self._gathering.keys(self._gathered)

    def _gathered(self, outcome: GatherOutcome) -> None:
        if outcome.reason:
            self.fail(outcome.reason)
            return
        self._asked = outcome.asked
        self._config = self._member.replica.config
        self.phase = "executing"
        self._gathering.transactions(self._executed)

    def _executed(self, reason: str) -> None:
        if reason:
            self.fail(reason)
            return
        self.phase = "cutting"
        self._store.cut(self._cut)

    def _cut(self, cut: StoreCut) -> None:
        if self.phase == "failed":
            cut.close()
            return
        datacenters = {each: self._datacenter_of(each) or str(each) for each in self._config.replica_ids}
        here = Here(replica=self._member.replica.me, datacenters=datacenters)
        self._stream = BackupStream(here, cut, self._gathering.spool, self._absent)
        self.phase = "ready"
        self._make()

    def fail(self, reason: str) -> None:
        """Or end: nothing is handed out from here on."""
        if self.phase == "failed":
            return
        self.phase, self.reason = "failed", reason
        self._gathering.stop()
        self._made.clear()
        if self._stream is not None:
            self._stream.close()
        else:
            self._gathering.spool.close()
        if self._wanted is not None:
            (_, answered), self._wanted = self._wanted, None
            answered(reason)

    # Blocks

    def block(self, number: int, answered: Callable[[BlockAnswer], None]) -> None:
        """Blocks are handed out in order; the last one may be asked for again. A second request takes the place of one
        that still waits: its reader has gone."""
        if self.phase not in ("ready", "done"):
            answered(self.reason or f"it is {self.phase}; blocks come when it is ready")
            return
        if number not in (self._given, self._given + 1) or number < 0:
            answered(f"blocks are given in order: {self._given + 1} is next, not {number}")
            return
        if self._wanted is not None:
            self._wanted[1]("asked for again")
        self._wanted = number, answered
        self._hand_out()

    def _hand_out(self) -> None:
        if self._wanted is None:
            return
        number, answered = self._wanted
        if number not in self._made:
            self._make()
            return
        self._wanted = None
        for old in [each for each in self._made if each < number]:
            del self._made[old]
        self._given, block = number, self._made[number]
        if block is None:
            self._finish()
        answered(block)
        self._make()

    def _finish(self) -> None:
        assert self._stream is not None
        self.phase = "done"
        self._stream.close()

    def _make(self) -> None:
        """One ahead of the reader, so that the next is made while one is on its way."""
        if self._making or self._stream is None or self.phase != "ready" or len(self._made) > 1:
            return
        self._making = True
        self._stream.next(self._have_made, self._broke)

    def _have_made(self, block: bytes | None) -> None:
        if self.phase == "failed" or self._stream is None:
            return
        stamp, self._stamp = self._stamp, self._store.newest_stamp()
        rest_ms = min(LONGEST_REST_MS, self._stream.cpu_ms * (1 / SHARE - 1)) if stamp != self._stamp else 0.0
        self._newest += 1
        self._made[self._newest] = block
        self._hand_out()
        if block is not None:
            self.clock.call_later(rest_ms, self._rested)

    def _rested(self) -> None:
        self._making = False
        self._hand_out()
        self._make()

    def _broke(self, error: Exception) -> None:
        """Such as a row whose checksum is wrong: it is in no backup."""
        self.fail(f"the store could not be read: {error}")

    # What is told

    def state(self) -> BackupState:
        stream, config = self._stream, self._config
        totals = stream.totals if stream is not None else {}
        return BackupState(
            id=self.id,
            phase=self.phase,
            reason=self.reason,
            made_at=self._made_at,
            replica=self._member.replica.me,
            datacenter=self._datacenter_of(self._member.replica.me),
            epoch=config.epoch,
            members=tuple([self._described(each) for each in config.replica_ids]),
            quorum_policy=config.quorum_policy.value,
            version=__version__,
            cluster=self._cluster,
            asked=self._asked,
            compared=self._gathering.compared,
            keys=self._member.key_count.keys,
            written=sum(total.records for kind, total in totals.items() if kind is not Kind.ACTORS),
            bytes=sum(total.bytes for total in totals.values()),
            missing=stream.missing if stream is not None and self.phase == "done" else (),
            versioned=True,
        )

    def _described(self, member: int) -> BackedUpMember:
        info = self._config.info(member)
        return BackedUpMember(id=member, datacenter=self._datacenter_of(member), url=info.url if info else "")


class Backups:
    """`cluster`: the id of a cluster that was restored itself."""

    def __init__(
        self, member: Membership, store: Store, dice: Dice, cluster: str, datacenter_of: Callable[[int], str]
    ) -> None:
        self._member = member
        self._store = store
        self._dice = dice
        self._cluster = cluster
        self._datacenter_of = datacenter_of
        self._current: Backup | None = None
        self._timer: Timer | None = None
        self.begun = count()

    @property
    def running(self) -> str | None:
        """The id of the backup under way."""
        current = self._current
        return current.id if current is not None and current.phase not in ("failed", "done") else None

    def begin(self) -> Backup:
        assert self.running is None, "one at a time"
        next(self.begun)
        self._member.key_count.renew()
        if self._current is not None:
            self._current.fail("it was ended")
        name = f"{self._dice.nonce():016x}"
        self._current = backup = Backup(name, self._member, self._store, self._cluster, self._datacenter_of)
        if self._timer is None:
            self._look()
        backup.begin()
        return backup

    def find(self, backup_id: str) -> Backup | None:
        """What asks for it keeps it alive."""
        current = self._current
        if current is None or current.id != backup_id:
            return None
        current.heard_ms = current.clock.now_ms()
        return current

    def end(self, reason: str) -> None:
        if self._current is not None:
            self._current.fail(reason)
            self._current = None

    def _look(self) -> None:
        self._timer = None
        current = self._current
        if current is None:
            return
        if current.clock.now_ms() - current.heard_ms >= SILENCE_MS:
            self.end("nothing was asked for a minute")
        else:
            self._timer = self._member.clock.call_later(LOOK_MS, self._look)
