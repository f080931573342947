"""The JSON records of backups."""

from typing import Annotated, Literal

from msgspec import Struct

from epoxy.model.api import Count, ReplicaId, documented

BackupPhase = Literal["settling", "executing", "cutting", "ready", "done", "failed"]


class BackedUpMember(Struct, frozen=True, kw_only=True):
    id: ReplicaId
    datacenter: str
    url: str


class BackupState(Struct, frozen=True, kw_only=True):
    """A backup that this node makes. `compared`: keys that were compared with other members' so far, of about `keys`.
    `written`: keys and values in blocks so far. `asked`: the members whose votes and
    commits are in it. `missing`, when it is done: datacenters that own actors and could not be asked for them.
    `versioned`: values of transactions have versions in it."""

    id: str
    phase: BackupPhase
    reason: Annotated[str, documented("Why it failed.")]
    made_at: Annotated[str, documented("When it began, UTC.")]
    replica: ReplicaId
    datacenter: str
    epoch: Count
    members: tuple[BackedUpMember, ...]
    quorum_policy: str
    version: Annotated[str, documented("Of Epoxy.")]
    cluster: Annotated[str, documented("The id of a cluster that was restored from a backup itself.")]
    asked: tuple[int, ...]
    compared: Count
    keys: Count
    written: Count
    bytes: Count
    missing: tuple[str, ...]
    versioned: bool = False
