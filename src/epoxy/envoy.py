"""Workers that host actors.

from epoxy.envoy import Actor, Request, Worker

worker = Worker("http://127.0.0.1:7800", pool="chat", slots=100)

@worker.actor("counter", sleep_after=60.0)
class Counter(Actor):
    async def on_request(self, request: Request) -> dict[str, int]:
        self.state["count"] = self.state.get("count", 0) + 1
        return {"count": self.state["count"]}

@worker.actor("echo")
async def echo(actor: Actor) -> None:
    async for request in actor:
        request.respond(request.body)

worker.run()
"""

from epoxy.client.envoy_protocol import WorkerRefused as WorkerRefused
from epoxy.client.hosted import Actor as Actor
from epoxy.client.hosted import HeaderMap as HeaderMap
from epoxy.client.hosted import Request as Request
from epoxy.client.hosted import Response as Response
from epoxy.client.hosted import Socket as Socket
from epoxy.client.hosted import State as State
from epoxy.client.worker import Worker as Worker
from epoxy.model.errors import ConnectionLost as ConnectionLost
from epoxy.model.errors import DocumentTooLarge as DocumentTooLarge
from epoxy.model.errors import EpoxyError as EpoxyError
from epoxy.model.errors import Forbidden as Forbidden
from epoxy.model.errors import InvalidRequest as InvalidRequest
from epoxy.model.errors import OutcomeUnknown as OutcomeUnknown
from epoxy.model.errors import StateError as StateError
from epoxy.model.errors import Timeout as Timeout
from epoxy.model.errors import Unavailable as Unavailable
