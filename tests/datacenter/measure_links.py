"""What it costs to pass a write on to another node of the datacenter: CPU of both ends, beyond the write itself.

    python -m tests.datacenter.measure_links

Both nodes are in this process, with real connections on loopback; the owner answers at once. So what is measured is the
route, the encoding, the seals, four system calls, and the event loop between them.
"""

import asyncio
import time
from typing import Any

import uvloop

from epoxy.model.shards import ALL_SHARDS
from epoxy.model.writes import Committed, Path, Write
from tests.datacenter.nodes import datacenter, proposal_of

WRITES = 20_000
WIDTHS = 1, 4, 16, 64, 256
VALUE = b"v" * 100


async def measure(width: int) -> float:
    """Microseconds for each write, with so many under way."""
    async with datacenter(2) as (one, two):
        two.owners.owned = set(ALL_SHARDS)
        one.owners.owners = dict.fromkeys(ALL_SHARDS, 2)
        writes = [Write(key=b"key/%d" % number, value=VALUE, mutable=True) for number in range(1000)]
        done = Committed(proposal=proposal_of(writes[0], 1), mine=True, path=Path.FAST)
        two.links.serve(Write, lambda _, __, answered: answered(done))
        await one.write(writes[0])
        ended = asyncio.get_running_loop().create_future()
        begun = answers = 0

        def begin() -> None:
            nonlocal begun
            if begun < WRITES:
                begun += 1
                one.routes.write(writes[begun % len(writes)], answered)

        def answered(outcome: Any) -> None:
            nonlocal answers
            assert outcome == done
            answers += 1
            if answers == WRITES:
                ended.set_result(None)
            begin()

        began_s = time.process_time()
        for _ in range(width):
            begin()
        await ended
        return (time.process_time() - began_s) / WRITES * 1e6


if __name__ == "__main__":
    for under_way in WIDTHS:
        print(f"{under_way:4} under way: {uvloop.run(measure(under_way)):5.1f} us of CPU for a write")
