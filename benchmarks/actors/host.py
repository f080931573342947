"""The worker of a measurement, in a process of its own: `python -m benchmarks.actors.host URL`."""

import sys

from epoxy.envoy import Actor, Request, Worker

SLEEP_S = 1.0


def make(url: str) -> Worker:
    worker = Worker(url, pool="bench")

    @worker.actor("echo")
    async def echo(actor: Actor) -> None:
        async for request in actor:
            request.respond(request.body)

    @worker.actor("count")
    class Count(Actor):
        async def on_request(self, request: Request) -> str:  # noqa: ARG002
            self.state["count"] = self.state.get("count", 0) + 1
            return str(self.state["count"])

    @worker.actor("sleeper", sleep_after=SLEEP_S)
    class Sleeper(Actor):
        async def on_request(self, request: Request) -> bytes:
            self.state["seen"] = len(request.body)
            return b""

    return worker


if __name__ == "__main__":
    make(sys.argv[1]).run()
