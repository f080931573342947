"""What the codec costs: `python -m tests.codec.measure_bare` prints microseconds of CPU for each call.

The best of many short runs, because a shared machine only ever makes a run slower. msgspec's own msgpack stands
beside it for scale: compiled, and neither strict nor canonical.
"""

import time
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import msgpack

from epoxy.codec import wire
from epoxy.codec.generate import SCHEMA, generate
from epoxy.model.ballot import fast_ballot
from epoxy.model.frames import PeerRequest
from epoxy.model.messages import Accept, Commit
from epoxy.model.records import CommittedRecord, Proposal, ProposalId

KEY = b"reservation/room-1"
PROPOSAL = Proposal(value=b"v" * 100, version=1, mutable=False, proposal_id=ProposalId(3, 0x1122334455667788))
ACCEPT = Accept(key=KEY, epoch=1, ballot=fast_ballot(3), proposal=PROPOSAL)
COMMIT = Commit(key=KEY, epoch=1, proposal=PROPOSAL)
RECORD = CommittedRecord(committed=PROPOSAL)
BATCH = PeerRequest(sender=1, recipient=2, requests=(ACCEPT,) * 16)

CASES: tuple[tuple[str, Any, Callable[[Any], bytes], Callable[[bytes], Any]], ...] = (
    ("Accept", ACCEPT, wire.encode_request, wire.decode_request),
    ("Commit", COMMIT, wire.encode_request, wire.decode_request),
    ("CommittedRecord", RECORD, wire.encode_committed_record, wire.decode_committed_record),
    ("16 Accepts in a PeerRequest", BATCH, wire.encode_peer_request, wire.decode_peer_request),
    ("Accept, msgpack", ACCEPT, msgpack.Encoder().encode, msgpack.Decoder(Accept).decode),
    ("CommittedRecord, msgpack", RECORD, msgpack.Encoder().encode, msgpack.Decoder(CommittedRecord).decode),
)


def cost_us(call: Callable[[], object], number: int = 5_000) -> float:
    return min(timeit.repeat(call, number=number, repeat=30, timer=time.process_time)) / number * 1e6


def main() -> None:
    print(f"{'':28} bytes  encode us  decode us")
    for name, value, encode, decode in CASES:
        data = encode(value)
        number = 500 if value is BATCH else 5_000
        encoding = cost_us(partial(encode, value), number)
        decoding = cost_us(partial(decode, data), number)
        print(f"{name:28} {len(data):5}  {encoding:9.2f}  {decoding:9.2f}")
    text = SCHEMA.read_text("utf-8")
    making = cost_us(lambda: compile(generate(text, SCHEMA.name), "codec", "exec"), 1) / 1000
    print(f"generating and compiling at import would take {making:.0f} ms")


if __name__ == "__main__":
    main()
