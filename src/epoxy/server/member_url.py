"""Whether a data directory is where its member is: the rule that keeps copies of a cluster apart.

Links follow the URLs in the register and not those in a file. So the copy of a node, started elsewhere with a file that
names another URL, would dial the members of the original and vote there. It is not started, unless the others say that
this member has moved to that URL.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from epoxy.model.api import Members
from epoxy.model.cluster import ClusterConfig, ReplicaInfo
from epoxy.model.errors import ConfigError, EpoxyError
from epoxy.model.members import Member
from epoxy.model.node_urls import is_one_of
from epoxy.model.writes import ConsensusFailed, Refused
from epoxy.node.members.members_admin import MembersAdmin, Verdict
from epoxy.node.process.config import Settings
from epoxy.ports import Clock
from epoxy.protocol.members.change_request import Amendment

MOVE_AGAIN_MS = 250.0
"""Between two tries of a member that is alone to write down its new URL: it votes a moment after its start."""

ReadMembers = Callable[[ReplicaInfo], Awaitable[Members]]
"""The members as another one knows them; raises EpoxyError if it does not answer."""


async def check_member_url(settings: Settings, config: ClusterConfig, identity: int, read: ReadMembers) -> None:
    """ConfigError: the URL that the file has for this node is none of the member's in the configuration in force, and
    no other member says that it has moved there. `identity`: of this node's store.

    A cluster of one member is let through, because there is no other that it could vote with.
    """
    here, info = settings.node.advertise_url, config.info(settings.node.id)
    if info is None or is_found(settings, config):
        return
    others = [other for other in config.replicas if other.id != info.id]
    if not await has_moved(info.id, here, identity, config.epoch, others, read):
        raise ConfigError(refusal(info.id, here, info.url, is_first=config.epoch == 1))


def is_found(settings: Settings, config: ClusterConfig, url: str = "") -> bool:
    """Whether the other members look for their peer at this node, if there are others. `url`: of another node of its
    datacenter."""
    info = config.info(settings.node.id)
    if info is None or not info.url or len(config.replica_ids) == 1:
        return True
    return is_one_of(url or settings.node.advertise_url, info.url)


async def has_moved(
    me: int, here: str, identity: int, epoch: int, others: Iterable[ReplicaInfo], read: ReadMembers
) -> bool:
    """Whether another member has a later configuration, in which this store is a member at its new URL. The move was
    decided while this node was down, so that its own configuration does not have it. Asking is harmless:
    the request names no store, and nothing is recorded of it (`transport.peers.probe`)."""
    answers = await asyncio.gather(*map(read, others), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, EpoxyError):
            raise answer
        if isinstance(answer, Members) and answer.epoch > epoch and lists(answer, me, here, identity):
            return True
    return False


def lists(members: Members, me: int, url: str, identity: int) -> bool:
    return any(row.id == me and row.identity == identity and is_one_of(url, row.url) for row in members.replicas)


def move_alone(admin: MembersAdmin, settings: Settings, config: ClusterConfig, clock: Clock) -> None:
    """The only member of a cluster writes down its new URL itself, for those that are added later."""
    here, info = settings.node.advertise_url, config.info(settings.node.id)
    if info is None or len(config.replica_ids) != 1 or is_one_of(here, info.url):
        return

    def answered(verdict: Verdict) -> None:
        if isinstance(verdict, Refused | ConsensusFailed):
            clock.call_later(MOVE_AGAIN_MS, ask)

    def ask() -> None:
        admin.change(Amendment(move=(Member(id=settings.node.id, url=here),)), answered)

    ask()


def refusal(me: int, here: str, known: str, *, is_first: bool) -> str:
    if is_first:
        return (
            f"node.advertise_url: {here} here, but cluster.members has {known} for replica {me}, and that is where the "
            f"others will look for it. Its data directory is new. One of two:\n"
            f"  the cluster is new, too:  write the same address in both places\n"
            f"  the member has moved since, and lost its disk:  it comes back under an id that was never used, "
            f"`epoxy members add NEW-ID {here} --replace {me}`; cluster.members stays as it is"
        )
    return (
        f"node.advertise_url: by its file replica {me} is at {here}, but its data directory belongs to the member at "
        f"{known}. It is not started: a copy would vote in the cluster that it was copied from. One of three:\n"
        f"  the member has moved:  epoxy members move {me} {here}   at a running member; then start it again\n"
        f"  it is a copy, for another cluster:  epoxy restore, of a backup; or epoxy rescue, of data directories\n"
        f'  the file is wrong:  node.advertise_url = "{known}"'
    )
