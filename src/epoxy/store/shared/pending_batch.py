"""Commits that share one transaction of the database, until it is known that it is durable."""

from collections.abc import Callable, Sequence

from epoxy.store.buffer import stamp
from epoxy.store.shared.database import Database, GroupCommit
from epoxy.store.shared.row_cache import MISSING

StampedRow = tuple[bytes, bytes, bytes]
"""Prefix, suffix and value of a row whose key the commit completes."""


class FarValue:
    """The durable value of a row that was written without having been read. It is learned at the latest before the
    batch is sent that replaces it: from then on the database may have either."""

    __slots__ = ("key", "value")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.value: bytes | None = MISSING


Before = bytes | FarValue | None


def resolve(before: Before, database: Database) -> bytes | None:
    """Reads the row if it is still far."""
    if not isinstance(before, FarValue):
        return before
    if before.value is MISSING:
        before.value = database.read_rows((before.key,), flush=False).get(before.key)
    return before.value


class PendingBatch:
    """`rows`: the last write of each. `before`: the durable values that they replace, which is what readers of durable
    rows see until the batch is durable. `stamped`: of each commit with stamped rows, in their order."""

    __slots__ = (
        "before",
        "commits",
        "config_epoch",
        "counts",
        "is_executed",
        "is_sealed",
        "made",
        "number",
        "rows",
        "sequence",
        "shards",
        "size",
        "stamped",
        "waiting",
    )

    def __init__(self, config_epoch: int = 0) -> None:
        self.config_epoch = config_epoch
        """Of the configuration under which its first commit was made. If the replica has a newer one when the batch
        comes to the database, its votes are too late: the replica has said that it votes in that epoch no more."""
        self.rows: dict[bytes, bytes | None] = {}
        self.shards: dict[bytes, int] = {}
        self.before: dict[bytes, Before] = {}
        self.stamped: list[Sequence[StampedRow]] = []
        self.counts = False
        self.size = 0
        self.commits = 0
        """The number of the last commit in it."""
        self.is_sealed = False
        """It is on its way, or about to be: later commits share the next."""
        self.number = 0
        """Of the session's batches; 0: it is not sealed yet."""
        self.made: GroupCommit | None = None
        """What is sent, and sent again if the server loses it."""
        self.is_executed = False
        """The database has it, and a crash may still undo that."""
        self.sequence = 0
        """Its last stamp, once it is executed."""
        self.waiting: list[Callable[[], None]] = []
        """To be called when it is durable."""

    def far(self) -> list[FarValue]:
        return [each for each in self.before.values() if isinstance(each, FarValue) and each.value is MISSING]

    def replaces(self, key: bytes) -> bool:
        """Whether the database has this row when the batch comes to it. A vote that was decided at once is deleted by
        the batch that it was made in."""
        before = self.before[key]
        return (before.value if isinstance(before, FarValue) else before) is not None

    def stamped_keys(self) -> dict[bytes, None]:
        """The rows that were stamped by it, once it is executed."""
        first = self.sequence - len(self.stamped) + 1
        return dict.fromkeys(
            [
                prefix + stamp(first + number, index) + suffix
                for number, commit in enumerate(self.stamped)
                for index, (prefix, suffix, _) in enumerate(commit)
            ]
        )
