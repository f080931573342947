"""Identities of stores, which keep a replica that lost its disk from voting under its old id.

Such a replica has forgotten its votes and promises. With an empty store it could vote against what it agreed to before,
and an acknowledged write would be lost. So every store draws an identity when it is made, and a replica is its id and
that identity together.

The configuration holds the identities of its members. Only the first configuration comes from a file, and has none:
until they are recorded in it, each replica notes the identities it meets, and a store votes once a majority of the
other voters has noted it. Two stores of one id would need two such majorities, which have a replica in common.
"""

import enum
from collections.abc import Mapping, Set

from epoxy.model.cluster import ClusterConfig
from epoxy.protocol.members.changes import NEWCOMERS

Noted = Mapping[int, int]
"""Replica id -> the identity this replica has noted for it."""


class Recognition(enum.Enum):
    KNOWN = "known"
    NEW = "new"
    """No store is on record under this id. Note its identity, durably, before anything else."""
    IMPOSTOR = "impostor"
    """Another store is on record. Neither its requests nor its replies count."""


def recognise(config: ClusterConfig, noted: Noted, replica_id: int, identity: int) -> Recognition:
    on_record = identity_on_record(config, noted, replica_id)
    if on_record == identity:
        return Recognition.KNOWN
    return Recognition.IMPOSTOR if on_record else Recognition.NEW


def identity_on_record(config: ClusterConfig, noted: Noted, replica_id: int) -> int:
    """The configuration goes before notes: a removed id may be given to another machine, and a note about the old one
    does not apply to a newcomer, which has no vote until its identity is in the configuration."""
    info = config.info(replica_id)
    if info is None:
        return noted.get(replica_id, 0)
    return info.identity or (0 if info.status in NEWCOMERS else noted.get(replica_id, 0))


def may_vote(config: ClusterConfig, me: int, identity: int, noted_by: Set[int]) -> bool:
    """Whether this replica may vote with its store. `noted_by`: the replicas that have noted its identity."""
    info = config.info(me)
    if info is not None and info.identity:
        return info.identity == identity
    others = set(config.voters) - {me}
    return not others or 2 * len(others & noted_by) > len(others)
