"""Transactions over HTTP."""

from functools import partial
from typing import assert_never

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import BadRequest, json_body, shown
from epoxy.api.http.permissions import check_stored, check_txn
from epoxy.api.http.routes import JSON, NOT_JSON, Route, RouteAnswer, overloaded, refusal
from epoxy.codec import txn_json
from epoxy.model.access import Access
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import CodecError, Oversized
from epoxy.model.transactions import Executed, Put, Txn, TxnOutcome, TxnRefused, TxnUnknown, WrongEngine


class TxnRoutes:
    def __init__(self, node: Backend) -> None:
        self._node = node

    def table(self) -> list[Route]:
        return [
            Route(
                method="POST",
                path="/v2/txn",
                handler=self.post,
                kind="http_post_txn",
                access=Access.WRITE,
                operation="transact",
                summary="A transaction over several keys",
                body={JSON: txn_json.TxnJson},
                answers={
                    200: RouteAnswer("Executed, at one moment.", {JSON: txn_json.ExecutedJson}),
                    400: refusal("No transaction that can be executed.", "bad_transaction", "bad_key"),
                    409: refusal(
                        "Nothing was done: values of keys written by themselves are too long.", "wrong_engine"
                    ),
                    413: refusal("More than a transaction may hold.", "transaction_too_large"),
                    415: NOT_JSON,
                    429: overloaded(),
                    503: refusal(
                        "No decision in time (it may still take effect), no quorum, or not ready.",
                        *("consensus_failed", "no_quorum"),
                    ),
                },
            )
        ]

    def post(self, call: ApiCall) -> None:
        call.parameters()
        txn = txn_of(json_body(call.request))
        check_txn(call.principal, txn)
        principal, answered = call.principal, partial(answer, call, txn)
        if principal.stored_bytes and not txn.is_read_only:
            check_stored(self._node, principal, put_bytes(txn))
        self._node.txn(txn, self._node.quotas.charging(principal, txn, answered))


def put_bytes(txn: Txn) -> int:
    """Keys and values that it puts, by whichever of its branches puts more."""
    branches = [[each for each in branch if isinstance(each, Put)] for branch in (txn.then, txn.otherwise)]
    return max(sum(len(put.key) + len(put.value) for put in branch) for branch in branches)


def txn_of(body: bytes) -> Txn:
    try:
        txn = txn_json.decode_txn(body)
    except Oversized as error:
        raise BadRequest(413, "transaction_too_large", str(error)) from error
    except CodecError as error:
        raise BadRequest(400, "bad_transaction", str(error)) from error
    if any(key >= FIRST_SYSTEM_KEY for key in txn.footprint):
        raise BadRequest(400, "bad_key", "keys that begin with the byte ff are the cluster's own")
    return txn


def answer(call: ApiCall, txn: Txn, outcome: TxnOutcome) -> None:
    match outcome:
        case Executed():
            call.json(200, txn_json.executed_json(txn, outcome))
        case WrongEngine():
            keys = ", ".join(map(shown, outcome.keys))
            message = f"nothing was done: values of more than 64 KiB cannot be handed over to transactions: {keys}"
            call.fail(409, "wrong_engine", message)
        case TxnRefused() if outcome.no_quorum:
            call.fail(503, "no_quorum", outcome.reason, retry_after_ms=RETRY_AFTER_MS)
        case TxnRefused():
            call.overloaded(f"turned away: {outcome.reason}")
        case TxnUnknown():
            message = f"the outcome is unknown: {outcome.reason}. The transaction may still take effect"
            call.fail(503, "consensus_failed", message, definite=False)
        case _:
            assert_never(outcome)
