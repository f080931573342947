"""Sessions over HTTP: begun, renewed, shown and ended. Keys are written with `session=` to end after one."""

from functools import partial

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import BadRequest, number, session_of
from epoxy.api.http.key_answers import answer_refused
from epoxy.api.http.permissions import check_stored
from epoxy.api.http.routes import JSON, Parameter, Route, RouteAnswer, overloaded, refusal
from epoxy.api.http.routes_kv import UNDECIDED
from epoxy.model.access import Access
from epoxy.model.api import LEAST_SESSION_TTL_MS, MAX_SESSION_TTL_MS, SessionId, SessionRecord, SessionTtl
from epoxy.model.records import Proposal
from epoxy.model.sessions import session_key
from epoxy.model.writes import Committed, ConsensusFailed, Consistency, Outcome, ReadAnswer, ReadResult, Refused

PATH = "/v2/sessions"
PREFIX = f"{PATH}/".encode()
ONE = f"{PATH}/{{id}}"

ID = Parameter("id", SessionId, "The session, as it was answered when it began.", place="path")
BAD_ID = refusal("The request is outside the contract.", "bad_parameter")
NO_SESSION = refusal("The session is over, or never was.", "no_session")


def shown(description: str) -> RouteAnswer:
    return RouteAnswer(description, {JSON: SessionRecord})


class SessionRoutes:
    """A writer's: it may renew or end each session whose id it knows. An id is 128 random bits."""

    def __init__(self, node: Backend) -> None:
        self._node = node

    def table(self) -> list[Route]:
        ttl = Parameter("ttl", SessionTtl, "How long it lasts after each renewal, in milliseconds.", required=True)
        undone = {400: BAD_ID, 429: overloaded(), 503: UNDECIDED}
        return [
            Route(
                method="POST",
                path=PATH,
                handler=self.begin,
                kind="http_post_session",
                access=Access.WRITE,
                operation="beginSession",
                summary="Begin a session",
                parameters=(ttl,),
                answers={201: shown("It lasts."), **undone},
            ),
            Route(
                method="PUT",
                path=ONE,
                handler=self.renew,
                kind="http_put_session",
                access=Access.WRITE,
                operation="renewSession",
                summary="Let a session last for its whole time again",
                parameters=(ID,),
                answers={200: shown("Renewed."), 404: NO_SESSION, **undone},
            ),
            Route(
                method="GET",
                path=ONE,
                handler=self.get,
                kind="http_get_session",
                access=Access.WRITE,
                operation="getSession",
                summary="Whether a session lasts",
                parameters=(ID,),
                answers={
                    200: shown("It lasts."),
                    400: BAD_ID,
                    404: NO_SESSION,
                    429: overloaded(),
                    503: refusal("Too few replicas answered, or not ready.", "read_failed"),
                },
            ),
            Route(
                method="DELETE",
                path=ONE,
                handler=self.end,
                kind="http_delete_session",
                access=Access.WRITE,
                operation="endSession",
                summary="End a session, and after it all keys that name it",
                parameters=(ID,),
                answers={200: shown("It is over."), 404: NO_SESSION, **undone},
            ),
        ]

    def begin(self, call: ApiCall) -> None:
        ttl_ms = number(call.parameters(), b"ttl", low=LEAST_SESSION_TTL_MS, high=MAX_SESSION_TTL_MS)
        if ttl_ms is None:
            words = f"from {LEAST_SESSION_TTL_MS} to {MAX_SESSION_TTL_MS}"
            raise BadRequest(400, "bad_parameter", f"ttl is missing: how many milliseconds the session lasts, {words}")
        if call.principal.stored_bytes:
            check_stored(self._node, call.principal, len(session_key(bytes(16))))

        at_once: list[Outcome] = []
        session = b""

        def answered(outcome: Outcome) -> None:
            if session:
                self._charge_and_answer(call, session, 201, outcome)
            else:
                at_once.append(outcome)  # A refusal may come before the id is known here.

        session = self._node.sessions.begin(ttl_ms, answered)
        for outcome in at_once:
            self._charge_and_answer(call, session, 201, outcome)

    def renew(self, call: ApiCall) -> None:
        session = self._session_of(call)
        self._node.sessions.renew(session, partial(self._answer, call, session, 200))

    def end(self, call: ApiCall) -> None:
        session = self._session_of(call)
        self._node.sessions.end(session, partial(self._charge_and_answer, call, session, 200))

    def get(self, call: ApiCall) -> None:
        session = self._session_of(call)
        self._node.read(session_key(session), Consistency.LINEARIZABLE, partial(self._answer_read, call, session))

    def _session_of(self, call: ApiCall) -> bytes:
        call.parameters()
        return session_of(call.request.path[len(PREFIX) :])

    def _charge_and_answer(self, call: ApiCall, session: bytes, status: int, outcome: Outcome) -> None:
        self._node.quotas.charge(call.principal, session_key(session), outcome)
        self._answer(call, session, status, outcome)

    def _answer(self, call: ApiCall, session: bytes, status: int, outcome: Outcome) -> None:
        match outcome:
            case Committed():
                call.json(status, self._shown(session, outcome.proposal))
            case Refused():
                answer_refused(call, outcome)
            case ConsensusFailed():
                call.fail(503, "consensus_failed", f"the outcome is unknown: {outcome.reason}", definite=False)
            case _:
                no_session(call)

    def _answer_read(self, call: ApiCall, session: bytes, outcome: ReadAnswer) -> None:
        match outcome:
            case ReadResult(committed=Proposal() as committed) if committed.value is not None:
                call.json(200, self._shown(session, committed))
            case ReadResult():
                no_session(call)
            case Refused():
                call.overloaded(f"turned away: {outcome.reason}")
            case _:
                call.fail(503, "read_failed", outcome.reason, retry_after_ms=RETRY_AFTER_MS)

    def _shown(self, session: bytes, committed: Proposal) -> SessionRecord:
        """A tombstone has no time left."""
        expiry = committed.expiry
        left = self._node.leases.remaining_ms(session_key(session), committed)
        ttl_ms = expiry.ttl_ms if expiry is not None else 0
        return SessionRecord(session=session.hex(), ttl=ttl_ms, remaining=left or 0)


def no_session(call: ApiCall) -> None:
    call.fail(404, "no_session", "the session is over, or never was")
