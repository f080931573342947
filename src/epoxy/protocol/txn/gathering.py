"""When transactions that interfere with a command of this replica, which was just executed, become the next command.

Not at once. Clients whose answers have just left come back with their next request in a moment: the few that wait
already would be a command of their own, and the others would wait for that one. And while other coordinators use the
same keys, all of them have executed the same commands by now: they would propose the next ones at the same moment, none
of them would know of the others', and all would need a second round. So the contended keys are held back

- until as many transactions wait as may come now: those of the command again, beside those that waited meanwhile;
- until it is this replica's turn, if the others are near: the rival before it has proposed a command that follows this
  replica's last one.

Neither is a rule of safety. Both waits end after a time, which is short beside what the command took.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from epoxy.model.instances import MAX_BATCH, NOTHING, Command, Deps, Instance, InstanceId
from epoxy.model.transactions import Txn
from epoxy.protocol.txn.log import InstanceLog


class KeyGathering:
    """Contended keys of an executed command, which are held back. `expected`: transactions that may still come;
    `rival`: the replica whose next command is waited for."""

    __slots__ = ("after", "expected", "keys", "rival")

    def __init__(self, after: InstanceId, keys: frozenset[bytes], expected: int, rival: int | None) -> None:
        self.after = after
        self.keys = keys
        self.expected = expected
        self.rival = rival

    @property
    def is_over(self) -> bool:
        return self.expected <= 0 and self.rival is None

    def count(self, txn: Txn) -> None:
        """It waits now."""
        if not self.keys.isdisjoint(txn.footprint):
            self.expected -= 1

    def notice(self, proposed: Instance) -> None:
        """Another replica has proposed this command."""
        if self.rival == proposed.id.replica_id and follows(proposed, self.after, self.keys):
            self.rival = None


def touches_apart(command: Command) -> bool:
    """Whether no key is touched by two of its transactions."""
    return sum([len(txn.footprint) for txn in command.txns]) == len(command.footprint)


def contended_keys(command: Command, waiting: Iterable[Txn]) -> frozenset[bytes]:
    """Keys the command writes and a second transaction touches: another one of its own, or one that waits."""
    seen: set[bytes] = set()
    again: set[bytes] = set()
    for txn in (*command.txns, *waiting):
        for key in txn.footprint:
            (again if key in seen else seen).add(key)
    return frozenset([key for key in again if command.footprint.get(key)])


def expected_count(command: Command, waiting: Sequence[Txn], keys: frozenset[bytes]) -> int:
    """Those of the command come again, as long as they make one command with those that wait."""
    again = sum([not keys.isdisjoint(txn.footprint) for txn in command.txns])
    return min(again, MAX_BATCH - sum([not keys.isdisjoint(txn.footprint) for txn in waiting]))


def rival_before(mine: Instance, log: InstanceLog) -> Instance | None:
    """The last command of the rival whose turn is before this replica's next one. None: there is no rival, or that one
    has had its turn. Turns go by id, from the lowest to the highest and round; if both have proposed at the same
    moment, the lowest begins."""
    me, known = mine.id.replica_id, mine.initial or NOTHING
    rivals = rivals_of(mine, log)
    if not rivals:
        return None
    is_lowest = me < min(rivals).replica_id
    last = log.get(max(each for each in rivals if is_lowest or each.replica_id < me))
    is_at_the_same_moment = last.id not in known and mine.id not in (last.initial or NOTHING)
    if mine.id in (last.initial or NOTHING) or (is_lowest and is_at_the_same_moment):
        return None
    return last


def rivals_of(mine: Instance, log: InstanceLog) -> list[InstanceId]:
    """The last commands of other replicas that write the same keys: of those that have proposed some since this replica
    proposed its last but one or, if that is not known, were not executed when it proposed this one."""
    assert mine.command is not None
    writers = map(log.interference.writers, [key for key, writes in mine.command.footprint.items() if writes])
    shared = [each for each in writers if len(each) > 1]
    if not shared:
        return []
    newest: dict[int, int] = {}
    before = 0
    for replica_id, slots in [item for each in shared for item in each.items()]:
        if replica_id != mine.id.replica_id:
            newest[replica_id] = max(newest.get(replica_id, 0), slots[-1])
        else:
            before = max(before, newest_below(slots, mine.id.slot))
    known = log.get(InstanceId(mine.id.replica_id, before)).initial or Deps(upto=(mine.initial or NOTHING).upto)
    return [each for each in map(InstanceId, newest.keys(), newest.values()) if each not in known]


def newest_below(slots: Sequence[int], slot: int) -> int:
    at = bisect_left(slots, slot)
    return slots[at - 1] if at else 0


def follows(proposed: Instance, earlier: InstanceId, keys: Iterable[bytes]) -> bool:
    """Whether its coordinator knew the earlier command when it proposed this one, which touches some of these keys."""
    if proposed.initial is None or proposed.command is None or earlier not in proposed.initial:
        return False
    return not proposed.command.footprint.keys().isdisjoint(keys)
