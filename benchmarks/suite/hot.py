"""One hot key: many clients overwrite it, or add to it, through all nodes and through one, ours and etcd's in turns.

Every stretch has a key of its own, so that what is there in the end can be held against what was acknowledged: the
number that adds made, and the version, which every overwrite raises by one, ours and etcd's alike.
"""

import http.client
from collections.abc import Sequence
from email.message import Message
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.peers.etcd import text as base64_text
from benchmarks.suite.growth import running
from benchmarks.suite.job import DIGITS, Choice, Outcome
from benchmarks.suite.makers import Makers
from benchmarks.suite.measure import Field, Plan, generate, possible, say, words
from benchmarks.suite.systems.base import Operation
from benchmarks.suite.systems.epoxy import Epoxy
from benchmarks.suite.workloads import (
    EPOXY,
    EPOXY_HTTP_PUT,
    EPOXY_INCR,
    ETCD,
    ETCD_LOOP,
    Turn,
    Workload,
)

CLIENTS = 48
PLAN = Plan(rounds=3, warm_s=1.0, seconds=3.0)

PUTS = tuple(Turn(Operation.PUT, Choice.ONE) for _ in range(2))
ADDS = (Turn(Operation.ADD, Choice.ONE),)


def hot(name: str, title: str, turns: tuple[Turn, ...], contenders: tuple[str, ...], *, one_node: bool) -> Workload:
    where = "one node (of etcd its leader)" if one_node else "three nodes"
    return Workload(
        name=name,
        title=f"{title}, {CLIENTS} clients of {where}",
        turns=turns,
        clients=CLIENTS,
        contenders=contenders,
        one_node=one_node,
        pause_s=0.01,
    )


SET_SPREAD = hot("hot-set", "overwrite one key", PUTS, (EPOXY, EPOXY_HTTP_PUT, ETCD), one_node=False)
ADD_SPREAD = hot("hot-incr", "add to one key", ADDS, (EPOXY_INCR, ETCD_LOOP), one_node=False)
SET_ALONE = hot("hot-set-one", "overwrite one key", PUTS, (EPOXY, EPOXY_HTTP_PUT, ETCD), one_node=True)
ADD_ALONE = hot("hot-incr-one", "add to one key", ADDS, (EPOXY_INCR, ETCD_LOOP), one_node=True)
HOT = (SET_SPREAD, ADD_SPREAD, SET_ALONE, ADD_ALONE)


class Ending(Struct, frozen=True):
    """Of a key after a stretch: how often it was written, and what it holds."""

    version: int
    value: bytes


class Stretch(Struct, frozen=True, kw_only=True):
    outcome: Outcome
    ending: Ending


class Wrong(Struct, kw_only=True):
    """What cannot be, over all stretches of a contender. `lost`: acknowledged and not in the final version, or number;
    `invented`: more in it than acknowledged and unknown ones together. `again`: a number told twice."""

    lost: int = 0
    invented: int = 0
    again: int = 0

    @property
    def count(self) -> int:
        return self.lost + self.invented + self.again


def wrong(stretches: Sequence[Stretch], *, adds: bool) -> Wrong:
    found = Wrong()
    for each in stretches:
        done, unclear = each.outcome.answered, unknown(each.outcome)
        there = int(each.ending.value or b"0") if adds else each.ending.version
        found.lost += max(0, done - there)
        found.invented += max(0, there - done - unclear)
        found.again += each.outcome.told.again
    return found


DEFINITE = ("BUSY", "429")
"""First words of refusals after which nothing was written."""


def unknown(outcome: Outcome) -> int:
    return outcome.failed - sum(outcome.faults.get(word, 0) for word in DEFINITE)


def ending(field: Field, contender: str, key: str) -> Ending:
    system = field.system(contender)
    if isinstance(system, Epoxy):
        status, headers, body = fetched(system.doors["HTTP"].ports[0], "GET", f"/v2/kv/{key}?read=linearizable", None)
        if status != 200:
            raise RuntimeError(f"{contender}: the hot key cannot be read: {status} {body!r}")
        return Ending(int(headers["Epoxy-Version"] or 0), body)
    asked = msgspec.json.encode({"key": base64_text(key.encode())})
    _, _, body = fetched(system.doors["gRPC"].ports[0], "POST", "/v3/kv/range", asked)
    kv = msgspec.json.decode(body, type=Ranged).kvs[0]
    return Ending(int(kv.version), kv.value)


class RangedKey(Struct):
    version: str
    value: bytes


class Ranged(Struct):
    kvs: list[RangedKey]


def fetched(port: int, method: str, path: str, body: bytes | None) -> tuple[int, Message, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30.0)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def stretch(field: Field, workload: Workload, contender: str, number: int, plan: Plan) -> Stretch:
    work = field.job(workload, contender, number, plan)
    outcome = possible(f"{contender}, {workload.title}", work, generate(work))
    key = f"bench/{field.unique(workload, contender, number)}/{(DIGITS % 0).decode()}"
    return Stretch(outcome=outcome, ending=ending(field, contender, key))


Found = dict[str, dict[str, list[Stretch]]]


def measured(makers: Makers, names: Sequence[str], folder: Path, plan: Plan) -> Found:
    found: Found = {workload.name: {} for workload in HOT}
    with running(makers.several([name for name in names if name in (EPOXY, ETCD)], folder)) as field:
        for number in range(plan.rounds):
            say(f"hot keys, round {number + 1} of {plan.rounds}")
            for workload in HOT:
                present = [contender for contender in workload.contenders if contender in field]
                for contender in present if number % 2 == 0 else reversed(present):
                    done = stretch(field, workload, contender, number, plan)
                    found[workload.name].setdefault(contender, []).append(done)
                    say(f"  {workload.title}: {contender} {words(done.outcome)}")
    return found
