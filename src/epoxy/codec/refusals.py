"""Values the codec refuses although they fit the schema."""

from collections.abc import Mapping

from epoxy.model.records import MAX_TTL_MS, SESSION_ID_BYTES

Refusals = Mapping[str, tuple[tuple[str, str], ...]]

TOO_LONG = f"{{ttl_ms}} > {MAX_TTL_MS}"
NO_SESSION = f"{{session}} and len({{session}}) != {SESSION_ID_BYTES}"

REFUSALS: Refusals = {
    "Ballot": (("{counter} == 0 and {replica_id} != 0", "counter 0 belongs to the ballot (0,0) alone"),),
    "Proposal": (
        ("{value} is None and not {mutable}", "an immutable key holds no tombstone"),
        ("{folded} and {version} <= len({folded})", "more writes than versions"),
        (
            "{expiry} is not None and ({value} is None or not {mutable})",
            "only a value of a mutable key has an expiry",
        ),
    ),
    "Expiry": (
        ("({ttl_ms} > 0) is not (not {session})", "a time to live or a session"),
        (TOO_LONG, "a time to live of more than a thousand years"),
        (NO_SESSION, "a session's id has 16 bytes"),
    ),
    "Settled": (("{folded} and {version} <= len({folded})", "more writes than versions"),),
    "CarriedWrite": (
        ("{amount} is not None and {amount} > 0x7FFF_FFFF_FFFF_FFFF", "an amount has at most 63 bits"),
        ("{amount} is not None and {value} is not None", "a write that adds has no value"),
        ("not {mutable} and ({value} is None or {if_version} is not None)", "a reservation has a value and no version"),
        ("not {mutable} and ({ttl_ms} or {session})", "only a value of a mutable key has an expiry"),
        ("bool({ttl_ms}) + bool({session}) + {keep_expiry} > 1", "a write gives one expiry at most"),
        ("{touch} and {value} is not None", "a write that touches has no value"),
        (TOO_LONG, "a time to live of more than a thousand years"),
        (NO_SESSION, "a session's id has 16 bytes"),
    ),
    "Prepare": (("not {ballot}.is_classic", "the fast round has no phase 1"),),
    "Accept": (
        ("{ballot}.counter < 1", "a vote needs a ballot"),
        ("{proposal}.version < 1", "version 0 is never voted on"),
    ),
    "ClusterConfig": (
        ("{epoch} < 1", "epochs begin at 1"),
        ("{replicas}[0].id < 1", "replica id 0 belongs to legacy values"),
        ("any(a.id >= b.id for a, b in pairwise({replicas}))", "replica ids rise"),
        ("all(replica.status is not ReplicaStatus.ACTIVE for replica in {replicas})", "no replica is active"),
        ("{sealed} >= {epoch}", "an epoch is not sealed while it lasts"),
        ("{term} >= {epoch}", "a term takes an epoch"),
        ("{since} > {term}", "members begin in a term that has begun"),
    ),
    "OrderedValue": (
        (
            "{expiry} is not None and ({value} is None or {immutable})",
            "only a value that may change has an expiry",
        ),
    ),
    "Compare": (
        ("not {values} and not {absent} and {version} is None", "nothing would make this compare hold"),
        ("({values} or {absent}) and {version} is not None", "a compare has a version, or values"),
    ),
    "Put": (
        ("bool({ttl_ms}) + bool({session}) + {keep_expiry} > 1", "a write gives one expiry at most"),
        (TOO_LONG, "a time to live of more than a thousand years"),
        (NO_SESSION, "a session's id has 16 bytes"),
    ),
    "Add": (
        ("{amount} > 0x7FFF_FFFF_FFFF_FFFF", "an amount has at most 63 bits"),
        (TOO_LONG, "a time to live of more than a thousand years"),
    ),
    "Txn": (
        ("not ({compares} or {then} or {otherwise} or {reads} or {imports})", "a transaction names at least one key"),
    ),
    "Instance": (
        ("{accepted} > {ballot} and {phase} is not Phase.COMMITTED", "a vote above the ballot that was joined"),
        ("{deps} is None and {phase} is not Phase.INITIAL", "an instance without dependencies"),
        (
            "{command} is None and not {nop} and {phase} in (Phase.ACCEPTED, Phase.COMMITTED)",
            "a vote for an unknown command",
        ),
        (
            "{phase} is Phase.PREACCEPTED and ({command} is None or {initial} is None)",
            "pre-accepted without what was sent",
        ),
    ),
    "ChangeRequest": (
        ("{members}[0].id < 1", "replica id 0 belongs to legacy values"),
        ("any(a.id >= b.id for a, b in pairwise({members}))", "replica ids rise"),
    ),
}
"""By type, conditions and messages: what the types of the model assert, as errors. Wrong bytes are not a bug of this
code, and asserts vanish under `python -O`. Checked before encoding too: what cannot be read must not be written."""
