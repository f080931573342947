"""Epoxy: a strongly consistent key-value store across datacenters, without a leader.

    from epoxy import Client
    client = Client("http://127.0.0.1:7800")
    client.reserve(b"user/ada", b"eu-west-1").won

Names are loaded on first use, so that `import epoxy` is fast and a node does not load a client.

A wheel has some modules compiled, besides their sources. With EPOXY_PURE=1 in the environment the sources are run.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epoxy import testing
    from epoxy.client import (
        AsyncClient,
        Change,
        Client,
        Deletion,
        Page,
        Reading,
        Renewed,
        Reservation,
        SessionInfo,
        Status,
        Sum,
        TxnResult,
        Value,
        Which,
        Written,
    )
    from epoxy.model.errors import (
        AccessRefused,
        ClientError,
        ConnectionLost,
        ConsensusFailed,
        CursorGone,
        EpoxyError,
        Forbidden,
        ImmutableKey,
        InvalidRequest,
        KeyExists,
        Lost,
        NoSession,
        NotAnInteger,
        NotObtained,
        NotRunning,
        OutcomeUnknown,
        QuotaExceeded,
        Timeout,
        Unauthenticated,
        Unavailable,
        UnexpectedAnswer,
        VersionMismatch,
        WriteConflict,
    )
    from epoxy.model.transactions import Add, Compare, Delete, Get, Put

    __compiled__: bool
    __version__: str

__all__ = [
    "AccessRefused",
    "Add",
    "AsyncClient",
    "Change",
    "Client",
    "ClientError",
    "Compare",
    "ConnectionLost",
    "ConsensusFailed",
    "CursorGone",
    "Delete",
    "Deletion",
    "EpoxyError",
    "Forbidden",
    "Get",
    "ImmutableKey",
    "InvalidRequest",
    "KeyExists",
    "Lost",
    "NoSession",
    "NotAnInteger",
    "NotObtained",
    "NotRunning",
    "OutcomeUnknown",
    "Page",
    "Put",
    "QuotaExceeded",
    "Reading",
    "Renewed",
    "Reservation",
    "SessionInfo",
    "Status",
    "Sum",
    "Timeout",
    "TxnResult",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
    "Value",
    "VersionMismatch",
    "Which",
    "WriteConflict",
    "Written",
    "__compiled__",
    "__version__",
    "testing",
]

RESULTS = (
    *("Change", "Deletion", "Page", "Reading", "Renewed", "Reservation", "SessionInfo"),
    *("Status", "Sum", "TxnResult", "Value", "Which", "Written"),
)

ROOMS = (
    dict.fromkeys(__all__, "epoxy.model.errors")
    | dict.fromkeys(("AsyncClient", "Client", *RESULTS), "epoxy.client")
    | dict.fromkeys(("Add", "Compare", "Delete", "Get", "Put"), "epoxy.model.transactions")
)


def load(name: str) -> Any:
    match name:
        case "__version__":
            return import_module("importlib.metadata").version("epoxydb")
        case "__compiled__":
            return not import_module("importlib.util").find_spec("epoxy.node.keys.driver").origin.endswith(".py")
        case "testing":
            return import_module("epoxy.testing")
        case _:
            return getattr(import_module(ROOMS[name]), name)


def sources_of(folder: str) -> Any:
    """A finder that ignores compiled modules, for the folders of this package alone."""
    if not f"{folder}{os.sep}".startswith(os.path.join(os.path.dirname(__file__), "")):
        raise ImportError
    machinery = import_module("importlib.machinery")
    return machinery.FileFinder(folder, (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES))


if os.environ.get("EPOXY_PURE") == "1":
    sys.path_hooks.insert(0, sources_of)


if not TYPE_CHECKING:  # a type checker knows the names above, and should complain about any other

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'epoxy' has no attribute {name!r}")
        found = load(name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
