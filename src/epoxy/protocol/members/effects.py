"""What a flow of a change of members may yield: effects of `protocol.effects`, and those below."""

from collections.abc import Generator, Iterable
from typing import Any, TypeVar

from msgspec import Struct

from epoxy.model.cluster import ClusterConfig
from epoxy.model.members import Kept, MemberRequest, Pair, Progress, Unsettled
from epoxy.model.messages import UpdateConfig
from epoxy.model.records import ChangelogEntry
from epoxy.protocol.effects import Adopt, Local, Tell

T = TypeVar("T")

ConfigUpdate = tuple[UpdateConfig]


class CurrentConfig(Struct, frozen=True):
    """Resumed with the configuration in force here."""


class ReadChangeRequest(Struct, frozen=True):
    """Resumed with what a quorum says the wish register holds: a Wish, None if there never was one; False if no quorum
    answered."""


class Ask(Struct, frozen=True, kw_only=True):
    """Ask one replica, perhaps this one; resumed with its reply, a Failed if none came in time."""

    to: int
    request: MemberRequest


class AskAll(Struct, frozen=True, kw_only=True):
    """Ask several at once; resumed with the replies by replica. Who said nothing in time is missing."""

    to: tuple[int, ...]
    request: MemberRequest


class Publish(Struct, frozen=True, kw_only=True):
    """Have this configuration decided by the one in force. Resumed when it is known what became of that; the flow looks
    at the configuration then in force, not at the outcome."""

    config: ClusterConfig


class Changing(Struct, frozen=True):
    """Resumed with whether members change, or a change is requested, as far as this replica knows."""


class LoadProgress(Struct, frozen=True, kw_only=True):
    source: int


class Summarise(Struct, frozen=True, kw_only=True):
    """Resumed with the Stretch this replica holds beyond `after`, as long as a page."""

    after: bytes | None


class Keep(Struct, frozen=True, kw_only=True):
    """Learn these decisions, and with them remember how far that goes. Resumed when both are durable, with how many of
    them were news here. Without progress: forget how far it went."""

    source: int
    entries: tuple[ChangelogEntry, ...]
    progress: Progress | None


class Repair(Struct, frozen=True, kw_only=True):
    """Learn these decisions, which this replica should have heard of long ago. Resumed when they are durable, with how
    many of them were news here."""

    entries: tuple[ChangelogEntry, ...]


class GiveWay(Struct, frozen=True, kw_only=True):
    """Let others have their turn: what was summarised, kept and repaired since the last time takes no more than this
    share of this replica's time."""

    share: float


class Followed(Struct, frozen=True, kw_only=True):
    """This source was copied up to its tail: say so in the status of this replica, as long as members change."""

    source: int


class Settle(Struct, frozen=True, kw_only=True):
    """Find out, with a quorum, what became of these keys, and learn it here. Resumed with whether that succeeded for
    all of them."""

    keys: tuple[Unsettled, ...]


class Synced(Struct, frozen=True, kw_only=True):
    """Say in the status of this replica that it is synced for this joint epoch."""

    epoch: int


class Rest(Struct, frozen=True, kw_only=True):
    """Wait about as long, with jitter."""

    delay_ms: float


# Of the ordered engine.


class LookThrough(Struct, frozen=True, kw_only=True):
    """Resumed with the Stretches of values this replica holds beyond `after`: so many, or fewer if these are all."""

    after: bytes | None
    stretches: int


class Span(Struct, frozen=True):
    """Keys beyond the one and through the other; None: from the first, to the last."""

    after: bytes | None
    through: bytes | None


class Replace(Struct, frozen=True, kw_only=True):
    """Hold these values in these spans, and nothing else there. Resumed when that is durable, with how many were news
    here; with None if the epoch is another by now, and nothing was done."""

    epoch: int
    spans: tuple[Span, ...]
    pairs: tuple[Pair, ...]


class Preserve(Struct, frozen=True, kw_only=True):
    """Keep these decisions of the past for those who may ask. Resumed when they are durable, with whether the epoch is
    still that one; otherwise nothing was done."""

    epoch: int
    kept: tuple[Kept, ...]


class Install(Struct, frozen=True, kw_only=True):
    """All is there: the next term may begin with it. Resumed as above."""

    epoch: int


class Mirrored(Struct, frozen=True):
    """Nearly all values are held here: say so in the status of this replica, as long as members change."""


MirrorEffect = LookThrough | Replace | Preserve | Install | Mirrored
CopyEffect = Changing | LoadProgress | Summarise | Keep | Repair | GiveWay | Followed
HereEffect = CurrentConfig | Local[Adopt] | CopyEffect | Synced | Rest
HostEffect = HereEffect | ReadChangeRequest | Ask | AskAll | Publish | Settle | MirrorEffect
Effect = HostEffect | Tell[ConfigUpdate]

Flow = Generator[Effect, Any, T]
"""What an effect resumes with depends on the effect, which Python's generator types cannot say: hence Any."""


def adopt(config: ClusterConfig) -> Local[Adopt]:
    return Local(Adopt(config=config))


def tell(to: Iterable[int], config: ClusterConfig) -> Tell[ConfigUpdate]:
    return Tell(envelopes=dict.fromkeys(to, (UpdateConfig(config=config),)))
