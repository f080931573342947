"""The agent's durable state: its record, in a file."""

import os
from pathlib import Path

import msgspec

from epoxy.model.errors import StoreFailed, StoreRefused
from epoxy.protocol.elect.epochs import is_possible
from epoxy.protocol.elect.terms import ElectRecord

FORMAT = "epoxy-elect-1"


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """With its owner, so that a directory copied to another node is refused there."""

    format: str
    cluster: str
    node: str
    record: ElectRecord


class Disk:
    def __init__(self, folder: Path, cluster: str, node: str) -> None:
        self._path = folder / "record.json"
        self._cluster = cluster
        self._node = node

    def load(self) -> ElectRecord | None:
        """None if there is none. An unreadable record is an error: voting without it could break a promise."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreRefused(f"{self._path}: cannot be read: {error.strerror}") from error
        try:
            kept = msgspec.json.decode(data, type=StoredRecord)
        except msgspec.DecodeError as error:
            raise StoreRefused(f"{self._path}: is damaged: {error}") from error
        if (kept.format, kept.cluster, kept.node) != (FORMAT, self._cluster, self._node):
            raise StoreRefused(f"{self._path}: belongs to {kept.node!r} of {kept.cluster!r}, format {kept.format}")
        highest = max(kept.record.epoch, kept.record.leader_epoch)
        if not is_possible(highest):
            raise StoreRefused(
                f"{self._path}: epoch {highest} cannot be, no cluster has had so many elections: empty "
                f"{self._path.parent} to join as a node that has lost its disk, one node at a time"
            )
        return kept.record

    def save(self, record: ElectRecord) -> None:
        """Atomic, and synced when this returns. A failure ends the agent: the effects that follow depend on this."""
        kept = StoredRecord(format=FORMAT, cluster=self._cluster, node=self._node, record=record)
        beside = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as file:
                file.write(msgspec.json.encode(kept))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise StoreFailed(f"{self._path}: cannot be saved: {error.strerror}") from error
