"""What a flow of the ordered engine may yield: the effects of `protocol.effects`, and those below."""

from collections.abc import Generator
from typing import Any, TypeVar

from msgspec import Struct

from epoxy.model.ballot import Ballot
from epoxy.model.instances import (
    Command,
    Instance,
    InstanceId,
    OrderedAccept,
    OrderedCommit,
    OrderedRequest,
    Seal,
    Validate,
)
from epoxy.protocol.effects import Also, Local, Next, Open, Pause, Tell, Timing

T = TypeVar("T")

# Local operations. Each is one transaction, and the flow is resumed when that is durable.


class Begin(Struct, frozen=True, kw_only=True):
    """Pre-accept a command of this replica; resumed with the PreAccept for the others."""

    id: InstanceId
    command: Command


class FinishFast(Struct, frozen=True, kw_only=True):
    """Commit what a fast quorum took as it was sent, unless this replica has joined a ballot since."""

    id: InstanceId


class Join(Struct, frozen=True, kw_only=True):
    """Join a ballot of this replica for an instance; resumed with the instance as it was, and the Recover to send."""

    id: InstanceId
    above: Ballot


class Look(Struct, frozen=True, kw_only=True):
    """Read these instances, and the counts that `Waiting` messages have brought for them."""

    ids: tuple[InstanceId, ...]


TxnOp = Begin | FinishFast | Join | Look | OrderedAccept | OrderedCommit | Validate | Seal


class Seen(Struct, frozen=True, kw_only=True):
    """The result of a `Look`."""

    instances: tuple[Instance, ...]
    waiting: tuple[int, ...]


class Rescue(Struct, frozen=True, kw_only=True):
    """Start recoveries of these instances, each in a flow of its own, up to the limit of concurrent ones."""

    ids: tuple[InstanceId, ...]


Effect = Local[TxnOp] | Open[OrderedRequest] | Also[OrderedRequest] | Next | Tell[OrderedRequest] | Pause | Rescue

Flow = Generator[Effect, Any, T]
"""What an effect resumes with depends on the effect, which Python's generator types cannot say: hence Any."""


class TxnTiming(Timing, frozen=True, kw_only=True):
    """A dependency that is not decided after `recover_ms` is recovered by the replica that waits for it: later than its
    own coordinator would have needed for two rounds. Every `catchup_ms` another replica is asked for decisions that
    were missed, and told how far this one has executed, so that it can forget. While others use the same keys, a
    replica waits up to `turn_ms` for its turn to propose; 0: it does not."""

    recover_ms: float = 1000.0
    catchup_ms: float = 1000.0
    turn_ms: float = 0.0
    backoff_ms: float = 20.0
