"""A worker whose actors write down their steps: `python -m tests.end_to_end.attacked_worker URL KEY JOURNAL`."""

import argparse
import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from epoxy.client import envoy_protocol
from epoxy.client.envoy_protocol import EnvoyProtocol
from epoxy.client.watchdog import WATCHDOG
from epoxy.envoy import Actor, Request, Worker
from tests.end_to_end.actor_journal import Journal

LOOK_S = 0.01
HASTE_MS = 500
SLOW_S = 0.3
BLOCKED_S = 120.0
"""Longer than any lease of a test, shorter than the patience of those who wait for a process to end."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("key")
    parser.add_argument("journal", type=Path)
    parser.add_argument("--pool", default="default")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--unwatched", action="store_true", help="no watchdog")
    parser.add_argument("--undead", action="store_true", help="no watchdog, and no lease")
    parser.add_argument("--hasty", action="store_true", help="code has a second to end")
    options = parser.parse_args()
    if options.hasty:
        envoy_protocol.STOP_MS = envoy_protocol.CLEAN_UP_MS = HASTE_MS
    if options.unwatched or options.undead:
        patch.object(WATCHDOG, "end_process").start()
    if options.undead:
        patch.object(EnvoyProtocol, "_is_cut_off", return_value=False).start()
    worker = Worker(options.url, key=options.key, pool=options.pool, namespace=options.namespace)
    register(worker, Journal(options.journal))
    worker.run()


Note = Callable[[Actor, str], None]


def register(worker: Worker, journal: Journal) -> None:
    def note(actor: Actor, what: str) -> None:
        journal.note(actor=f"{actor.name}/{actor.key}", actor_id=actor.id, generation=actor.generation, what=what)

    register_memory(worker, note)
    register_ends(worker, note)
    register_state(worker, note)


def register_memory(worker: Worker, note: Note) -> None:
    @worker.actor("memory")
    async def memory(actor: Actor) -> None:
        """Counts, in memory alone. `block` stops the event loop of the whole process."""
        note(actor, "begin")
        asked = 0
        async for request in actor:
            asked += 1
            note(actor, request.text or "turn")
            if request.body == b"block":
                time.sleep(BLOCKED_S)
                note(actor, "after the block")
            request.respond(f"{os.getpid()} {actor.generation} {asked}")


def register_ends(worker: Worker, note: Note) -> None:
    @worker.actor("careful")
    async def careful(actor: Actor) -> None:
        """Its clean-up lasts until the file that its input names is there."""
        note(actor, "begin")
        try:
            async for request in actor:
                note(actor, "turn")
                request.respond(actor.id)
        finally:
            note(actor, "clean-up")
            while not os.path.exists(actor.input):
                await asyncio.sleep(LOOK_S)
            note(actor, "end")

    @worker.actor("stubborn")
    async def stubborn(actor: Actor) -> None:
        """Does not end, however often it is cancelled."""
        note(actor, "begin")
        async for request in actor:
            request.respond(actor.id)
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(BLOCKED_S)

    @worker.actor("broken")
    async def broken(actor: Actor) -> None:
        note(actor, "begin")
        raise RuntimeError("as it always does")


def register_state(worker: Worker, note: Note) -> None:
    @worker.actor("saver")
    class Saver(Actor):
        """Counts, in its state. `slow` has read it, and not written it yet, for a while."""

        async def on_request(self, request: Request) -> str:
            count = self.state.get("count", 0) + 1
            if request.body == b"slow":
                note(self, "slow")
                await asyncio.sleep(SLOW_S)
            self.state["count"] = count
            note(self, f"count {count}")
            return f"{os.getpid()} {self.fence} {count}"


if __name__ == "__main__":
    main()
