"""What a node says about its transactions: the state of the ordered engine, and the last of them while they are looked
at. They are sent to `routes_txn`."""

from typing import get_args

from epoxy.api.http.calls import ApiCall
from epoxy.api.http.inputs import number
from epoxy.api.http.routes import JSON, Parameter, Route, RouteAnswer
from epoxy.codec.txn_json import quoted
from epoxy.model.access import Access
from epoxy.model.api_txn import MAX_WATCHED, OrderedState, RecentTxn, TransactionFeed, TxnWord, WatchLimit
from epoxy.node.report import rounded
from epoxy.node.service import Node
from epoxy.node.timing import floor_ms
from epoxy.node.txn.watch import WatchedTransaction
from epoxy.protocol.access.principal import Principal

MEANINGS = {
    "open": "Transactions are ordered here, in the same order as in every other datacenter.",
    "out": "This node is no member that orders transactions: it refuses them. Ask another node.",
    "waiting": "The members have changed, and the next period of the order has not begun here yet. "
    "Transactions wait for it.",
    "learning": "This node joins: it copies what was executed, and only learns decisions so far.",
    "closing": "The members change: the order is being closed, so that the new members begin at one point. "
    "Transactions wait for that.",
    "ending": "The members change: what was proposed before is finished, and nothing new is proposed. "
    "Transactions wait.",
    "asking": "This node asks the others how far they are before it proposes anything.",
    "catching-up": "This node missed many decisions and learns them. It refuses transactions meanwhile; ask another.",
}
"""What the states of `OrderedEngine.state` mean for a client."""

UNDER_WAY: TxnWord = "under_way"
WORDS: dict[str | None, TxnWord] = {None: UNDER_WAY, **{word: word for word in get_args(TxnWord)}}


class TransactionRoutes:
    def __init__(self, node: Node) -> None:
        self._node = node

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/transactions",
                handler=self.get,
                kind="http_get_transactions",
                access=Access.ANY,
                operation="listTransactions",
                summary="How transactions are ordered at this node, and the last of them while they are watched",
                parameters=(Parameter("limit", WatchLimit, "Transactions.", MAX_WATCHED),),
                answers={
                    200: RouteAnswer(
                        "The state, and transactions of which the client may read a key.", {JSON: TransactionFeed}
                    )
                },
                needs_ready=False,
            )
        ]

    def get(self, call: ApiCall) -> None:
        limit = number(call.parameters(), b"limit", low=1, high=MAX_WATCHED) or MAX_WATCHED
        kept, since_ms = self._node.transactions.watch.look()
        now_ms = self._node.clock.now_ms()
        shown = [each for each in kept if any(map(call.principal.may_read, each.keys))]
        feed = TransactionFeed(
            engine=state_of(self._node),
            transactions=[recent(each, call.principal, now_ms) for each in shown[:limit]],
            left_out=len(kept) - len(shown),
            watched_ms=int(now_ms - since_ms),
        )
        call.json(200, feed)


def state_of(node: Node) -> OrderedState:
    engine, config = node.ordered, node.replica.config
    return OrderedState(
        state=engine.state,
        open=engine.is_open,
        meaning=MEANINGS[engine.state],
        term=engine.replica.number,
        behind=engine.behind,
        kept=engine.replica.kept,
        kept_for=[node.datacenter_of(replica) for replica in engine.replica.kept_for],
        in_flight=engine.in_flight,
        executed=engine.submissions.executed_total,
        refused=node.transactions.refused,
        fast_share=node.transactions.fast_share,
        floor_ms=rounded(floor_ms(config, node.me, node.links)),
    )


def recent(watched: WatchedTransaction, principal: Principal, now_ms: float) -> RecentTxn:
    keys = [quoted(key) for key in watched.keys if principal.may_read(key)]
    begun_ms = watched.begun_ms
    return RecentTxn(
        ago_ms=int(now_ms - watched.arrived_ms),
        keys=keys,
        more_keys=watched.key_count - len(keys),
        writes=watched.writes,
        outcome=WORDS[watched.outcome],
        reason=watched.reason,
        path=watched.path,
        waited_ms=rounded(begun_ms - watched.arrived_ms if begun_ms is not None else None),
        took_ms=rounded(watched.took_ms),
    )
