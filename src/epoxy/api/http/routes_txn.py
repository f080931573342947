"""Transactions over HTTP."""

from functools import partial
from typing import assert_never

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import BadRequest, json_body, parameters, shown
from epoxy.codec import txn_json
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import CodecError, Oversized
from epoxy.model.transactions import Executed, Txn, TxnOutcome, TxnRefused, TxnUnknown, WrongEngine


class Transact:
    def __init__(self, node: Backend) -> None:
        self._node = node

    def post(self, call: ApiCall) -> None:
        parameters(call.request.query, frozenset())
        txn = txn_of(json_body(call.request))
        self._node.txn(txn, partial(answer, call, txn))


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
            keys, claimed = (", ".join(map(shown, each)) for each in (outcome.keys, outcome.claimed))
            what = f"written, but from now on only transactions may write {claimed}" if claimed else "done"
            message = f"nothing was {what}: outside transactions, and so never in one, are these keys: {keys}"
            call.fail(409, "wrong_engine", message)
        case TxnRefused():
            call.fail(429, "overloaded", f"turned away: {outcome.reason}", retry_after_ms=RETRY_AFTER_MS)
        case TxnUnknown():
            message = f"the outcome is unknown: {outcome.reason}. The transaction may still take effect"
            call.fail(503, "consensus_failed", message, definite=False)
        case _:
            assert_never(outcome)
