"""What a message between replicas costs at both ends together: `python -m benchmarks.links`.

One process, one core, real sockets on loopback, no disk: two peers that agree at once. A commit is an Accept that is
answered and a Commit without an answer, each to both peers. The fewer commits begin in one turn of the event loop,
the fewer messages share a frame, and the more of a frame each has to pay for.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence

import uvloop

from epoxy.codec.plain_requests import Incoming, decoded
from epoxy.model.ballot import fast_ballot
from epoxy.model.messages import Accept, AcceptOk, Commit, CommitOk, Reply
from epoxy.model.records import Proposal, ProposalId
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.transport.http.server import serve_http
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.transport import PeerEndpoint, Peers

SECRET = b"of a cluster that exists for a minute"
PEERS = (2, 3)
TURNS = (1, 4, 16, 64)
"""Commits that begin together."""
ROUNDS = 5
COMMITS = 2_000
"""In a round."""


def agree(requests: Sequence[Incoming], answered: Callable[[Sequence[Reply]], None]) -> None:
    answered([AcceptOk() if isinstance(decoded(request), Accept) else CommitOk() for request in requests])


def messages(number: int) -> tuple[Accept, Commit]:
    key, name = b"benchmark/%08d" % number, ProposalId(1, (number + 1) * 0x9E3779B97F4A7C15 % (1 << 64))
    proposal = Proposal(value=b"0123456789abcdef", version=1, mutable=False, proposal_id=name)
    vote = Accept(key=key, epoch=1, ballot=fast_ballot(1), proposal=proposal)
    return vote, Commit(key=key, epoch=1, proposal=proposal)


async def turn(peers: Peers, work: Sequence[tuple[Accept, Commit]]) -> None:
    answers: list[Reply] = []
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(reply: Reply) -> None:
        answers.append(reply)
        if len(answers) == len(work) * len(PEERS):
            over.set_result(None)

    for vote, decision in work:
        for peer in PEERS:
            peers.send(peer, (vote,), answered)
        for peer in PEERS:
            peers.send(peer, (decision,), None)
    await over
    assert answers == [AcceptOk()] * len(answers), f"a link failed: {answers}"


async def measure() -> None:
    loop = asyncio.get_running_loop()
    doors = [
        await serve_http(PeerEndpoint(agree, Authenticator(Verifier(peer, SECRET))), "127.0.0.1", 0) for peer in PEERS
    ]
    ports = [door.sockets[0].getsockname()[1] for door in doors]
    links = {peer: f"http://127.0.0.1:{port}" for peer, port in zip(PEERS, ports, strict=True)}
    peers = Peers(1, SECRET, links, epoch=lambda: 1, clock=LoopClock(loop), dice=SystemDice())
    peers.start()
    for together in TURNS:
        work = [messages(number) for number in range(together)]
        await turn(peers, work)
        figures = [await cost_us(peers, work) for _ in range(ROUNDS)]
        spread = f"({min(figures):.1f} to {max(figures):.1f})"
        print(f"  {together:3} commits in a turn {statistics.median(figures):9.1f}  {spread}")
    await peers.stop()
    for door in doors:
        door.close()


async def cost_us(peers: Peers, work: Sequence[tuple[Accept, Commit]]) -> float:
    turns = COMMITS // len(work)
    begun_s = time.process_time()
    for _ in range(turns):
        await turn(peers, work)
    return (time.process_time() - begun_s) / (turns * len(work) * 2 * len(PEERS)) * 1e6


if __name__ == "__main__":
    print(f"CPU microseconds for each message, median of {ROUNDS} rounds (lowest to highest)")
    uvloop.run(measure())
