"""How fast a newcomer copies what another replica holds, and how fast two that hold the same find that out.

    python -m benchmarks.learn [--folder DIR] [--keys 1000000]

Two embedded stores in one process, pages through the codec between them, so both ends share one core. Without pauses:
a node rests as long as it worked (`LEARNING_SHARE`), and each end has a process of its own.
"""

import argparse
import asyncio
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from benchmarks.preload import preload
from benchmarks.store import opened
from epoxy.codec import wire
from epoxy.model.cluster import first_epoch
from epoxy.node.keys.replica import Replica
from epoxy.node.members.key_sync import KeySync
from epoxy.protocol.members.effects import Ask, CurrentConfig, Effect, Flow, GiveWay
from epoxy.protocol.members.learner import LEARNING_SHARE, compare, copy
from epoxy.runtime.clock import LoopClock
from epoxy.runtime.flow import FlowFailures, FlowRunner
from epoxy.store.embedded.store import EmbeddedStore
from epoxy.store.member_rows import MemberSpace

SOURCE, LEARNER = 1, 2
CONFIG = first_epoch((SOURCE, LEARNER))


class End:
    """One replica's store, and what copies into it and out of it."""

    def __init__(self, folder: Path, me: int) -> None:
        self.me = me
        self.store: EmbeddedStore = opened(folder)
        replica = Replica(me, self.store, CONFIG, print)
        space = MemberSpace(replica.keyspace, me)
        self.store.transact(lambda tx: space.identity(tx, me))
        self.key_sync = KeySync(replica, self.store, space, LoopClock(asyncio.get_running_loop()))


class Measured(Struct, frozen=True, kw_only=True):
    seconds: float
    source_cpu_s: float
    cpu_s: float


class Line:
    """What a flow of the learner's asks of the source, through the codec both ways."""

    def __init__(self, learner: End, source: End) -> None:
        self._learner, self._source = learner, source
        self.source_cpu_s = 0.0
        self.clock, self.failures = LoopClock(asyncio.get_running_loop()), FlowFailures(print)

    def send(self, to: int, message: object, _answered: object) -> None:
        raise AssertionError(f"{message} to {to}: a copy sends nothing")

    def perform(self, effect: Effect, done: Callable[[Any], None]) -> None:
        if isinstance(effect, Ask):
            begun_s = time.thread_time()
            request = wire.decode_member_request(wire.encode_member_request(effect.request))
            reply = self._source.store.transact(lambda tx: self._source.key_sync.page(tx, request))  # type: ignore[arg-type]
            data = wire.encode_member_reply(reply)
            self.source_cpu_s += time.thread_time() - begun_s
            done(wire.decode_member_reply(data))
        elif isinstance(effect, CurrentConfig):
            done(CONFIG)
        elif isinstance(effect, GiveWay):
            asyncio.get_running_loop().call_soon(done, None)
        else:
            self._learner.key_sync.perform(effect, done)  # type: ignore[arg-type]


async def measure(flow: Flow[bool], learner: End, source: End) -> Measured:
    line, ended = Line(learner, source), asyncio.get_running_loop().create_future()
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    FlowRunner(line, "learner", flow, lambda _: False, ended.set_result).start()
    assert await ended, "the source fell silent"
    return Measured(
        seconds=time.perf_counter() - begun_s,
        source_cpu_s=line.source_cpu_s,
        cpu_s=time.process_time() - begun_cpu_s,
    )


def show(what: str, keys: int, measured: Measured) -> None:
    rate = keys / measured.seconds
    source_us, learner_us = (
        1e6 * seconds / keys for seconds in (measured.source_cpu_s, measured.cpu_s - measured.source_cpu_s)
    )
    print(
        f"{what}: {keys} keys in {measured.seconds:.1f} s, {rate:,.0f} a second; "
        f"CPU for each key: source {source_us:.1f} us, learner {learner_us:.1f} us; "
        f"most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
    )


async def run(folder: Path, keys: int) -> None:
    preload(folder / "source", SOURCE, keys)
    (folder / "learner").mkdir()
    source, learner = End(folder / "source", SOURCE), End(folder / "learner", LEARNER)
    show("copied", keys, await measure(copy(CONFIG, LEARNER, SOURCE, LEARNING_SHARE), learner, source))
    show("compared", keys, await measure(compare(LEARNER, SOURCE), learner, source))
    assert learner.key_sync.copied >= keys, learner.key_sync.copied
    assert not learner.key_sync.repaired, "both hold the same"
    for end in (source, learner):
        end.store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--keys", type=int, default=1_000_000)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        asyncio.run(run(folder, options.keys))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
