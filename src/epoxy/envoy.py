"""Workers that host actors.

from epoxy.envoy import Actor, Worker

worker = Worker("http://127.0.0.1:7800", pool="chat", slots=100)

@worker.actor("chat-room")
async def room(actor: Actor) -> None:
    async for request in actor:
        request.respond(request.body)

worker.run()
"""

from epoxy.client.envoy_protocol import WorkerRefused as WorkerRefused
from epoxy.client.hosted import Actor as Actor
from epoxy.client.hosted import Request as Request
from epoxy.client.worker import Worker as Worker
