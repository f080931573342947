"""A whole run of the store as data: commits, crashes, and what happens to its disk."""

import enum

from msgspec import Struct


class StoreStepKind(enum.Enum):
    COMMIT = "commit"
    DELAYED = "delayed-commit"
    """One that is not urgent."""
    WAIT = "wait"
    CRASH = "crash"
    """A power cut, or a kill if all is kept; then the next start."""
    FULL = "disk-full"
    FAIL = "fsync-fails"
    LIE = "lying-sync"
    COPY = "copy"
    """An image of the disk is put away."""
    RESTORE = "old-copy"
    """The disk is replaced by that image."""
    FLIP = "bit-flips"
    SECTOR = "sector-changes"
    ZERO = "zeroed-tail"
    SHORTEN = "shortened"
    ROT_VALUE = "value-rots"
    ROT_KEY = "key-rots"


DAMAGES = (
    StoreStepKind.FLIP,
    StoreStepKind.SECTOR,
    StoreStepKind.ZERO,
    StoreStepKind.SHORTEN,
    StoreStepKind.ROT_VALUE,
    StoreStepKind.ROT_KEY,
)
"""Done to a disk while the store is down. The run ends with the start after it."""


class StoreStep(Struct, frozen=True, kw_only=True):
    """`rows`: of either commit, the number of a key and the size of its value, or -1: cleared. `share`: what a crash
    keeps, or how long is waited, in milliseconds."""

    kind: StoreStepKind
    rows: tuple[tuple[int, int], ...] = ()
    share: float = 0.0

    @property
    def words(self) -> str:
        rows = ", ".join(f"key {key} cleared" if size < 0 else f"key {key}: {size} bytes" for key, size in self.rows)
        match self.kind:
            case StoreStepKind.COMMIT:
                return f"commit {rows}"
            case StoreStepKind.DELAYED:
                return f"commit {rows}, not urgent"
            case StoreStepKind.WAIT:
                return f"wait {self.share:g} ms"
            case StoreStepKind.CRASH if self.share < 1.0:
                return f"power cut, keeps {self.share:.0%} of what is not synced"
            case StoreStepKind.CRASH:
                return "kill"
            case _:
                return str(self.kind.value)


class StorePlan(Struct, frozen=True, kw_only=True):
    seed: int
    log_bytes: int
    steps: tuple[StoreStep, ...]

    @property
    def size(self) -> int:
        return len(self.steps)
