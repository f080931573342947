"""Values that end, over HTTP: pages of them, with what is left by this replica's count."""

from collections.abc import Callable

from msgspec import UNSET

from epoxy.api.http.calls import ApiCall
from epoxy.api.http.inputs import fragment, number
from epoxy.api.http.permissions import check_list
from epoxy.api.http.routes import JSON, Parameter, Route, RouteAnswer
from epoxy.codec.txn_json import as_text, quoted
from epoxy.model.access import Access
from epoxy.model.api import DEFAULT_LIMIT, MAX_LIMIT, KeyPart, Limit
from epoxy.model.api_leases import LeasePage, LeaseRow, LeaseTotals
from epoxy.model.writes import ReadResult
from epoxy.node.keys.lease_listing import LeaseListing, ListedLease
from epoxy.node.keys.leases import Leases
from epoxy.node.txn.transactions import is_of_transactions

SHOWN_OF_VALUE = 256
"""Bytes of each value: a holder's name and address. A thousand of them are a quarter of a MiB."""


class LeaseRoutes:
    """`peek`: what this replica knows of a key."""

    def __init__(self, leases: Leases, peek: Callable[[bytes], ReadResult | None]) -> None:
        self._leases = leases
        self._listing = LeaseListing(leases, peek)

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/leases",
                handler=self.page,
                kind="http_get_leases",
                access=Access.READ,
                operation="listLeases",
                local=True,
                summary="Values that end, as this replica knows them, in the order of their keys",
                parameters=(
                    Parameter("prefix", KeyPart, "Only keys that begin with this."),
                    Parameter("after", KeyPart, "Only keys beyond this one: `next` of the page before."),
                    Parameter("limit", Limit, "Values on the page.", DEFAULT_LIMIT),
                ),
                answers={200: RouteAnswer("A page.", {JSON: LeasePage})},
            )
        ]

    def page(self, call: ApiCall) -> None:
        given = call.parameters()
        limit = number(given, b"limit", low=1, high=MAX_LIMIT) or DEFAULT_LIMIT
        prefix = fragment(given, b"prefix")
        check_list(call.principal, prefix)
        found, more = self._listing.page(prefix, fragment(given, b"after") or None, limit)
        totals = self._totals() if call.principal.reads_all else None
        rows = [row_of(each) for each in found]
        call.json(200, LeasePage(leases=rows, next=quoted(more) if more is not None else None, totals=totals))

    def _totals(self) -> LeaseTotals:
        leases = self._leases
        return LeaseTotals(
            leases=leases.of_clients, sessions=leases.sessions, ended=leases.ended, late_ms=leases.late_ms
        )


def row_of(listed: ListedLease) -> LeaseRow:
    expiry, committed = listed.expiry, listed.committed
    value = committed.value if committed is not None else None
    return LeaseRow(
        key=quoted(listed.key),
        version=listed.version,
        remaining=listed.remaining_ms,
        ttl=expiry.ttl_ms or UNSET,
        session=expiry.session.hex() if expiry.session else UNSET,
        over=listed.is_over,
        value=beginning(value),
        value_bytes=len(value or b""),
        cut=len(value or b"") > SHOWN_OF_VALUE,
        engine="transactions" if committed is not None and is_of_transactions(committed) else UNSET,
    )


def beginning(value: bytes | None) -> str | None:
    """As text, if all of it is; a letter that is cut in two is left out."""
    if value is None or as_text(value) is None:
        return None
    return value[:SHOWN_OF_VALUE].decode("utf-8", "ignore")
