"""Clients of a cluster whose members change, through both doors, and all they were told."""

import random
from collections.abc import Iterable
from functools import partial

import redis

from epoxy import Client
from epoxy.testing import Cluster
from epoxy_sim.history import Absent, Failed, Found, Kind, Lost, Outcome, Read, Reserve, Unknown, Won
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.load import draw, remember
from tests.end_to_end.recorder import PATIENCE_S, Recorder

PAUSE_S = 0.01
"""Between two requests of one client: a test's few clients should not take the whole machine from the nodes."""

MAX_STEPS = 20_000
"""Of one client: more than three minutes with these pauses, longer than anybody has patience for."""

LOCKS = 40
"""Names that Redis clients fight for at a time."""


class Writers(Crowd):
    """While it is entered, clients ask one thing after another. Those of HTTP know all nodes, also those to come, each
    beginning with another; those of Redis stay with one node."""

    def __init__(self, recorder: Recorder, *, seed: int = 1) -> None:
        super().__init__()
        self._recorder = recorder
        self._seed = seed

    def http(self, name: str, urls: list[str]) -> None:
        self._begin(self._over_http, name, self._dice(name), urls)

    def redis(self, name: str, port: int) -> None:
        self._begin(self._over_redis, name, self._dice(name), port)

    def _dice(self, name: str) -> random.Random:
        return random.Random(f"{self._seed}/{name}")

    def more(self, count: int, names: Iterable[str]) -> None:
        """Until each of these clients has been answered `count` more times."""
        self._recorder.more(count, names)

    def _over_http(self, name: str, dice: random.Random, urls: list[str]) -> None:
        known: dict[bytes, int] = {}
        with Client(urls, timeout=PATIENCE_S) as client:
            for step in range(MAX_STEPS):
                if self._over.wait(PAUSE_S):
                    return
                key, kind = draw(dice, step, name, known)
                remember(known, key, self._recorder.run(name, client, key, kind))

    def _over_redis(self, name: str, dice: random.Random, port: int) -> None:
        with redis.Redis(port=port, socket_timeout=PATIENCE_S) as client:
            client.execute_command("READCONSISTENT")
            for step in range(MAX_STEPS):
                if self._over.wait(PAUSE_S):
                    return
                key = b"lock/%d" % (step // 3 + dice.randrange(LOCKS))
                kind = Read() if dice.randrange(3) == 0 else Reserve(value=b"%s/%d" % (name.encode(), step))
                self._recorder.note(name, key, kind, partial(by_redis, client, key, kind))


def by_redis(client: "redis.Redis", key: bytes, kind: Kind) -> Outcome:
    """Of names that are only ever reserved, so that their version is known without being told. Every value is asked for
    once, so a client that is shown its own value has won."""
    try:
        if isinstance(kind, Reserve):
            held = client.execute_command("RESERVE", key, kind.value)  # type: ignore[no-untyped-call]
            assert isinstance(held, bytes), held
            return Won(version=1) if held == b"OK" else Lost(value=held, version=1, mutable=False)
        found = client.get(key)
        return Found(value=found, version=1, mutable=False) if isinstance(found, bytes) else Absent(version=0)
    except redis.ResponseError as error:
        return Unknown() if "outcome unknown" in str(error) else Failed()
    except redis.RedisError:
        return Unknown()


def failures(recorder: Recorder) -> list[str]:
    """Who was not told what became of a request."""
    return [
        f"{operation.client}: {operation.kind} of {operation.key!r}: {operation.outcome}"
        for operation in recorder.history
        if isinstance(operation.outcome, Failed | Unknown)
    ]


def agree(recorder: Recorder, cluster: Cluster) -> None:
    """Everybody who is a member now is asked for everything, and all must say the same."""
    clients = [(node.datacenter, Client(node.url, timeout=PATIENCE_S)) for node in cluster]
    open_ended = {operation.key for operation in recorder.history if isinstance(operation.outcome, Unknown)}
    keys = recorder.keys()
    for key in keys:
        told = [recorder.run(f"{name}, in the end", client, key, Read()) for name, client in clients]
        assert all(isinstance(outcome, Found | Absent) for outcome in told), (key, told)
        assert key in open_ended or all(outcome == told[0] for outcome in told), (key, told)
    for _, client in clients:
        client.close()
