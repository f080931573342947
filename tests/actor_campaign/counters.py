"""The worker of a campaign: `python -m tests.actor_campaign.counters URL KEY [--forgetful]`. Its actors keep a log in
their state; forgetful ones, a planted fault, in memory alone."""

import asyncio
import os
import random
import sys

import msgspec

from epoxy.envoy import Actor, Request, Worker
from tests.actor_campaign.history import Line, Told

NAME, POOL = "counter", "campaign"
LOG = b"log"
"""A request for the whole log. An empty one reads, any other is a change."""

LONGEST_TURN_S = 0.004
"""Between reading and writing the state, so that a kill or a pause finds turns half done."""


FORGETFUL = "--forgetful"


def main() -> None:
    url, key, *flags = sys.argv[1:]
    worker = Worker(url, key=key, pool=POOL)
    register(worker, forgetful=FORGETFUL in flags)
    worker.run()


def register(worker: Worker, *, forgetful: bool) -> None:
    process = f"{worker.key}/{os.getpid()}"
    forgotten: dict[tuple[str, int], str] = {}

    @worker.actor(NAME)
    class Counter(Actor):
        def load_log(self) -> str:
            return forgotten.get((self.id, self.fence), "") if forgetful else self.state.get("log", "")

        def save_log(self, log: str) -> None:
            if forgetful:
                forgotten[self.id, self.fence] = log
            else:
                self.state["log"] = log

        async def on_request(self, request: Request) -> bytes:
            log = self.load_log()
            if request.body == LOG:
                return msgspec.json.encode(parse(log))
            if request.body:
                await asyncio.sleep(random.uniform(0.0, LONGEST_TURN_S))
                log += f"{request.text} {self.fence} {process}\n"
                self.save_log(log)
            lines = log.splitlines()
            last = lines[-1].split()[0] if lines else ""
            return msgspec.json.encode(Told(length=len(lines), last=last, fence=self.fence, process=process))


def parse(log: str) -> list[Line]:
    words = [line.split() for line in log.splitlines()]
    return [Line(change=change, fence=int(fence), process=process) for change, fence, process in words]


if __name__ == "__main__":
    main()
