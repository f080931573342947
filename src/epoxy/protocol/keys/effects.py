"""What a flow of the per-key protocol may yield: the effects of `protocol.effects`."""

from collections.abc import Generator, Mapping
from typing import Any, TypeVar

from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import Request
from epoxy.protocol.effects import Also, Local, Next, Open, Pause, Tell
from epoxy.protocol.keys.operations import LocalOp

T = TypeVar("T")

Requests = tuple[Request, ...]
"""For one replica, in order. The reply of the last one is the answer."""

Envelopes = Mapping[int, Requests]

Effect = Local[LocalOp] | Open[Requests] | Also[Requests] | Next | Tell[Requests] | Pause

Flow = Generator[Effect, Any, T]
"""What an effect resumes with depends on the effect, which Python's generator types cannot say: hence Any."""


class EpochChanged(Exception):
    """The configuration this flow runs under is over. Not an error: flows catch it, adopt, and look again."""

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
