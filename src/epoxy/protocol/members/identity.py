"""Whose store is this?

A replica that lost its disk has forgotten its votes and promises. Under its old id and with an empty store it would
agree to the opposite of what it agreed to before, and an acknowledged write is lost. So every store draws an identity
when it is made, and a replica is its id and that identity together.

The configuration holds the identities of its members. Only the first configuration comes from a file, and knows none:
until they are in, each replica writes down whom it has met, and a store votes once a majority of the others has written
it down. Two stores of one id would need two such majorities, and the two have a replica in common.
"""

import enum
from collections.abc import Mapping, Set

from epoxy.model.cluster import ClusterConfig
from epoxy.protocol.members.changes import NEWCOMERS

Noted = Mapping[int, int]
"""Replica id -> the identity this replica has written down for it."""


class Recognition(enum.Enum):
    KNOWN = "known"
    NEW = "new"
    """Nobody is on record under this id. Write the identity down, durably, and only then deal with it."""
    IMPOSTOR = "impostor"
    """Another store is on record. Neither its requests nor its replies count."""


def recognise(config: ClusterConfig, noted: Noted, replica_id: int, identity: int) -> Recognition:
    on_record = identity_on_record(config, noted, replica_id)
    if on_record == identity:
        return Recognition.KNOWN
    return Recognition.IMPOSTOR if on_record else Recognition.NEW


def identity_on_record(config: ClusterConfig, noted: Noted, replica_id: int) -> int:
    """The configuration goes first: an id that was removed may be given to another machine, and what was noted of the
    one before does not speak for a newcomer. That has no vote until its identity is in the configuration."""
    info = config.info(replica_id)
    if info is None:
        return noted.get(replica_id, 0)
    return info.identity or (0 if info.status in NEWCOMERS else noted.get(replica_id, 0))


def may_vote(config: ClusterConfig, me: int, identity: int, noted_by: Set[int]) -> bool:
    """Whether this replica's own store may speak for it. `noted_by`: who has said that it wrote the identity down."""
    info = config.info(me)
    if info is not None and info.identity:
        return info.identity == identity
    others = set(config.voters) - {me}
    return not others or 2 * len(others & noted_by) > len(others)
