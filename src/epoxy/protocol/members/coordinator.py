"""The coordinator of a change. Any voter may be one, and several at once: each step is a configuration that the one
before must decide, so a second coordinator can only find its step taken."""

from epoxy.model.cluster import ClusterConfig
from epoxy.model.members import ChangeRequest, MemberStatus, StatusRead
from epoxy.protocol.members.changes import ChangeDone, ChangeWaiting, Statuses, next_step, requested
from epoxy.protocol.members.effects import AskAll, CurrentConfig, Flow, Publish, ReadChangeRequest, Rest, tell

POLL_MS = 200.0
"""Between two polls of members that are not ready yet: little against the seconds a copy takes, and few messages."""


def coordinate(me: int) -> Flow[None]:
    """Runs until the members are those requested, or this replica is not a voter any more."""
    while True:
        config: ClusterConfig = yield CurrentConfig()
        if me not in config.voters:
            return
        request: ChangeRequest | bool | None = yield ReadChangeRequest()
        if isinstance(request, bool):
            yield Rest(delay_ms=POLL_MS)
            continue
        if is_quiet(config, request, me):
            return
        statuses = yield from poll_members(config, request)
        config = yield CurrentConfig()
        step = next_step(config, request, statuses, me)
        match step:
            case ChangeDone():
                return
            case ChangeWaiting():
                yield Rest(delay_ms=POLL_MS)
            case ClusterConfig():
                yield Publish(config=step)
                yield from announce(config)


def is_quiet(config: ClusterConfig, request: ChangeRequest | None, me: int) -> bool:
    """Nothing is left to do, whatever the members' statuses are, so they need not be polled."""
    is_identified = all(replica.identity for replica in config.replicas)
    return is_identified and isinstance(next_step(config, request, {}, me), ChangeDone)


def poll_members(config: ClusterConfig, request: ChangeRequest | None) -> Flow[Statuses]:
    """The statuses of all members, old and requested. Those in an older epoch are sent the configuration."""
    asked = set(config.replica_ids) | (requested(request) if request is not None else set())
    replies = yield AskAll(to=tuple(sorted(asked)), request=StatusRead())
    statuses = {i: reply for i, reply in replies.items() if isinstance(reply, MemberStatus)}
    behind = tuple(i for i, status in statuses.items() if status.epoch < config.epoch)
    if behind:
        yield tell(behind, config)
    return statuses


def announce(before: ClusterConfig) -> Flow[None]:
    """Send the new configuration to the members of both epochs, so that leaving members stop and new ones begin. A
    member that misses it learns of it from the first message of another epoch."""
    config: ClusterConfig = yield CurrentConfig()
    if config.epoch > before.epoch:
        yield tell(tuple(sorted({*before.replica_ids, *config.replica_ids})), config)
