"""What a flow of a change of members may yield: effects of `protocol.effects`, and those below."""

from collections.abc import Generator, Iterable
from typing import Any, TypeVar

from msgspec import Struct

from epoxy.model.cluster import ClusterConfig
from epoxy.model.instances import InstanceId
from epoxy.model.members import ActorRow, Kept, MemberRequest, Pair, Progress, Unsettled
from epoxy.model.messages import UpdateConfig
from epoxy.model.records import ChangelogEntry
from epoxy.protocol.effects import Adopt, Local, Tell

T = TypeVar("T")

ConfigUpdate = tuple[UpdateConfig]


class CurrentConfig(Struct, frozen=True):
    """Resumed with the configuration in force here."""


class ReadChangeRequest(Struct, frozen=True):
    """Read the last change request from a quorum. Resumed with the ChangeRequest, None if there never was one, or False
    if no quorum answered."""


class Ask(Struct, frozen=True, kw_only=True):
    """Ask one replica, perhaps this one; resumed with its reply, a Failed if none came in time."""

    to: int
    request: MemberRequest


class AskAll(Struct, frozen=True, kw_only=True):
    """Ask several at once; resumed with the replies by replica. Replicas that did not answer in time are missing."""

    to: tuple[int, ...]
    request: MemberRequest


class Publish(Struct, frozen=True, kw_only=True):
    """Have this configuration decided by the one in force. Resumed when the outcome is known; the flow goes by the
    configuration then in force, not by the outcome."""

    config: ClusterConfig


class Changing(Struct, frozen=True):
    """Resumed with whether members change, or a change is requested, as far as this replica knows."""


class LoadProgress(Struct, frozen=True, kw_only=True):
    source: int


class Summarise(Struct, frozen=True, kw_only=True):
    """Resumed with a Stretch: the digest of one page of the keys this replica holds beyond `after`."""

    after: bytes | None


class Keep(Struct, frozen=True, kw_only=True):
    """Learn these decisions, and store the progress of the copy with them. Resumed when both are durable, with how many
    decisions were new here. Without progress: delete what was stored."""

    source: int
    entries: tuple[ChangelogEntry, ...]
    progress: Progress | None


class Repair(Struct, frozen=True, kw_only=True):
    """Learn these decisions, which a comparison has found missing here. Resumed when they are durable, with how many
    were new here."""

    entries: tuple[ChangelogEntry, ...]


class GiveWay(Struct, frozen=True, kw_only=True):
    """Pause, so that the work since the last pause (digests, pages kept and repaired) takes no more than this share of
    the replica's time."""

    share: float


class Followed(Struct, frozen=True, kw_only=True):
    """This source was copied up to its tail: report it in this replica's status while members change."""

    source: int


class Settle(Struct, frozen=True, kw_only=True):
    """Read these keys from a quorum, finish what is in flight, and commit the decisions here. Resumed with whether that
    succeeded for all of them."""

    keys: tuple[Unsettled, ...]


class Synced(Struct, frozen=True, kw_only=True):
    """Report in this replica's status that it is synced for this joint epoch."""

    epoch: int


class Rest(Struct, frozen=True, kw_only=True):
    """Wait about this long, with jitter."""

    delay_ms: float


# Of the ordered engine.


class LookThrough(Struct, frozen=True, kw_only=True):
    """Resumed with the next `stretches` Stretches of values this replica holds beyond `after`; fewer at the end."""

    after: bytes | None
    stretches: int


class Span(Struct, frozen=True):
    """The keys beyond `after` and up to `through`, included; None: from the first, to the last."""

    after: bytes | None
    through: bytes | None


class Replace(Struct, frozen=True, kw_only=True):
    """Make these pairs the only ones in these spans. Resumed when that is durable, with how many were changed; with
    None if the epoch has changed, and nothing was done."""

    epoch: int
    spans: tuple[Span, ...]
    pairs: tuple[Pair, ...]


class Preserve(Struct, frozen=True, kw_only=True):
    """Keep these decided instances for members that have not executed them. Resumed with True when they are durable,
    with None if the epoch has changed, and nothing was done."""

    epoch: int
    kept: tuple[Kept, ...]


class Install(Struct, frozen=True, kw_only=True):
    """All values are copied: the next term may begin with them. Resumed as `Preserve`."""

    epoch: int


class Mirrored(Struct, frozen=True):
    """Nearly all values are copied: report it in this replica's status while members change."""


# Of a backup.


class SummariseRows(Struct, frozen=True, kw_only=True):
    """Resumed with the next `stretches` Stretches of what is committed here beyond `after`; fewer at the end. Their
    digests are of rows as they are stored."""

    after: bytes | None
    stretches: int


class CollectActors(Struct, frozen=True, kw_only=True):
    """Rows of actors, the next of this source, or if this `begins` its first: keep them for the backup."""

    source: int
    rows: tuple[ActorRow, ...]
    begins: bool


class Execute(Struct, frozen=True, kw_only=True):
    """Get transactions executed here up to these slots of the term, and all of earlier terms. Resumed with whether that
    was done in time."""

    term: int
    slots: tuple[InstanceId, ...]


BackupEffect = SummariseRows | CollectActors | Execute
MirrorEffect = LookThrough | Replace | Preserve | Install | Mirrored
CopyEffect = Changing | LoadProgress | Summarise | Keep | Repair | GiveWay | Followed
HereEffect = CurrentConfig | Local[Adopt] | CopyEffect | Synced | Rest
HostEffect = HereEffect | ReadChangeRequest | Ask | AskAll | Publish | Settle | MirrorEffect | BackupEffect
Effect = HostEffect | Tell[ConfigUpdate]

Flow = Generator[Effect, Any, T]
"""What an effect resumes with depends on the effect, which Python's generator types cannot say: hence Any."""


def adopt(config: ClusterConfig) -> Local[Adopt]:
    return Local(Adopt(config=config))


def tell(to: Iterable[int], config: ClusterConfig) -> Tell[ConfigUpdate]:
    return Tell(envelopes=dict.fromkeys(to, (UpdateConfig(config=config),)))
