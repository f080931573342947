"""The Python clients: `Client` blocks, `AsyncClient` mirrors it for asyncio.

What both do is decided without IO in `calls` (what is asked and what an answer means), `routing` (which node is tried
next) and `http1` (bytes of HTTP). `blocking` and `asynchronous` only move bytes.
"""

from epoxy.client.actor_calls import Which
from epoxy.client.asynchronous import AsyncClient
from epoxy.client.blocking import Client
from epoxy.client.results import (
    Change,
    Deletion,
    Inspection,
    Item,
    Page,
    Reading,
    Renewed,
    Reservation,
    SessionInfo,
    Status,
    Sum,
    TxnResult,
    Value,
    Written,
)

__all__ = [
    "AsyncClient",
    "Change",
    "Client",
    "Deletion",
    "Inspection",
    "Item",
    "Page",
    "Reading",
    "Renewed",
    "Reservation",
    "SessionInfo",
    "Status",
    "Sum",
    "TxnResult",
    "Value",
    "Which",
    "Written",
]
