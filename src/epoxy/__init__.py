"""Epoxy: leaderless, geo-distributed consensus for one key at a time.

    from epoxy import Client
    client = Client("http://127.0.0.1:7800")
    client.reserve(b"user/ada", b"eu-west-1").won

What is offered here is loaded when it is first asked for, so that `import epoxy` costs next to nothing and a node does
not load a client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epoxy import testing
    from epoxy.client import AsyncClient, Change, Client, Deletion, Page, Reading, Reservation, Status, Value, Written
    from epoxy.model.errors import (
        ClientError,
        ConnectionLost,
        ConsensusFailed,
        EpoxyError,
        ImmutableKey,
        InvalidRequest,
        OutcomeUnknown,
        Timeout,
        Unavailable,
        UnexpectedAnswer,
        VersionMismatch,
        WriteConflict,
    )

    __version__: str

__all__ = [
    "AsyncClient",
    "Change",
    "Client",
    "ClientError",
    "ConnectionLost",
    "ConsensusFailed",
    "Deletion",
    "EpoxyError",
    "ImmutableKey",
    "InvalidRequest",
    "OutcomeUnknown",
    "Page",
    "Reading",
    "Reservation",
    "Status",
    "Timeout",
    "Unavailable",
    "UnexpectedAnswer",
    "Value",
    "VersionMismatch",
    "WriteConflict",
    "Written",
    "__version__",
    "testing",
]

ROOMS = dict.fromkeys(__all__, "epoxy.model.errors") | dict.fromkeys(
    ("AsyncClient", "Change", "Client", "Deletion", "Page", "Reading", "Reservation", "Status", "Value", "Written"),
    "epoxy.client",
)


def load(name: str) -> Any:
    match name:
        case "__version__":
            return import_module("importlib.metadata").version("epoxy")
        case "testing":
            return import_module("epoxy.testing")
        case _:
            return getattr(import_module(ROOMS[name]), name)


if not TYPE_CHECKING:  # a type checker knows the names above, and should complain about any other

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'epoxy' has no attribute {name!r}")
        found = load(name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
