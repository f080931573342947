"""The coordinator of a change. Any voter may be one, several may be at once: each step is a configuration that the one
before must decide, so the worst they do to each other is to come second."""

from epoxy.model.cluster import ClusterConfig
from epoxy.model.members import ChangeRequest, MemberStatus, StatusRead
from epoxy.protocol.members.changes import ChangeDone, ChangeWaiting, Heard, next_step
from epoxy.protocol.members.effects import AskAll, CurrentConfig, Flow, Publish, ReadChangeRequest, Rest, Tell

POLL_MS = 200.0
"""Between two looks at members who are not there yet: little against the seconds a copy takes, and few messages."""


def coordinate(me: int) -> Flow[None]:
    """Until the members are those wanted, or this replica has no say any more."""
    while True:
        config: ClusterConfig = yield CurrentConfig()
        if me not in config.voters:
            return
        wish: ChangeRequest | bool | None = yield ReadChangeRequest()
        if isinstance(wish, bool):
            yield Rest(delay_ms=POLL_MS)
            continue
        if is_quiet(config, wish, me):
            return
        heard = yield from poll_members(config, wish)
        config = yield CurrentConfig()
        step = next_step(config, wish, heard, me)
        match step:
            case ChangeDone():
                return
            case ChangeWaiting():
                yield Rest(delay_ms=POLL_MS)
            case ClusterConfig():
                yield Publish(config=step)
                yield from announce(config)


def is_quiet(config: ClusterConfig, wish: ChangeRequest | None, me: int) -> bool:
    """Nothing is left to do, whatever anybody says: nobody need be asked."""
    is_identified = all(replica.identity for replica in config.replicas)
    return is_identified and isinstance(next_step(config, wish, {}, me), ChangeDone)


def poll_members(config: ClusterConfig, wish: ChangeRequest | None) -> Flow[Heard]:
    """Everybody's word; who is behind is told."""
    everybody = set(config.replica_ids) | ({member.id for member in wish.members} if wish is not None else set())
    replies = yield AskAll(to=tuple(sorted(everybody)), request=StatusRead())
    heard = {i: reply for i, reply in replies.items() if isinstance(reply, MemberStatus)}
    behind = tuple(i for i, status in heard.items() if status.epoch < config.epoch)
    if behind:
        yield Tell(to=behind, config=config)
    return heard


def announce(before: ClusterConfig) -> Flow[None]:
    """To the members of both, so that those who leave know it and those who come can begin. Who misses it learns of it
    from the first message of another epoch."""
    config: ClusterConfig = yield CurrentConfig()
    if config.epoch > before.epoch:
        yield Tell(to=tuple(sorted({*before.replica_ids, *config.replica_ids})), config=config)
