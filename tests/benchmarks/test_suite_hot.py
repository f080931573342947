"""One hot key: clients that keep the numbers they are told, what is held against them, and cold keys in pairs."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchmarks.columns import Part
from benchmarks.findings import Verdict
from benchmarks.suite import __main__ as command
from benchmarks.suite import cold, hot, hot_claims
from benchmarks.suite.cold import Pair
from benchmarks.suite.generator import run
from benchmarks.suite.hot import ADD_SPREAD, HOT, SET_SPREAD, Ending, Stretch, wrong
from benchmarks.suite.job import MARK, AtNode, Choice, Job, Latency, Outcome, Step, Told, Wire, told
from benchmarks.suite.makers import Makers
from benchmarks.suite.measure import Plan
from benchmarks.suite.results import figures
from benchmarks.suite.wires import grpc, http1, resp
from benchmarks.suite.workloads import EPOXY, EPOXY_HTTP_PUT, EPOXY_INCR, ETCD, ETCD_LOOP
from tests.benchmarks.test_suite_generator import Server
from tests.benchmarks.test_suite_rest import options


async def drive(wire: Wire, step: Step, answer: Callable[[bytes], list[bytes]], clients: int = 1) -> Outcome:
    server = await asyncio.get_running_loop().create_server(lambda: Server(answer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    greeting = (grpc.greeting(),) if wire is Wire.GRPC_ADDING else ()
    job = Job(wire=wire, ports=(port,), steps=(step,), greeting=greeting, clients=clients, limit=6, seconds=5.0)
    try:
        return await run(job)
    finally:
        server.close()


def test_sums_of_an_incr_are_kept_and_errors_are_wrong() -> None:
    replies = iter([b":1\r\n", b":2", b":2\r\n", b":3\r\n", b"-BUSY overtaken\r\n", b":3\r\n"])

    def answer(_: bytes) -> list[bytes]:
        reply = next(replies)
        return [reply] if reply.endswith(b"\n") else [reply, b"\r\n"]

    step = Step(exchange=resp.increment(MARK, b""), choice=Choice.FRESH)
    outcome = asyncio.run(drive(Wire.RESP_SUMS, step, answer))
    assert outcome.told == Told(count=5, again=2, low=1, high=3)
    assert outcome.faults == {"BUSY": 1}


def test_versions_of_overwrites_are_kept() -> None:
    replies = iter(
        [
            b"HTTP/1.1 201 Created\r\nEpoxy-Version: 1\r\nContent-Length: 0\r\n\r\n",
            *(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nEpoxy-Version: %d\r\n\r\n" % number for number in (2, 3, 3)),
            b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nEpoxy-Version: 5\r\nContent-Length: 0\r\n\r\n",
        ]
    )
    step = Step(exchange=http1.put(MARK, MARK), choice=Choice.FRESH)
    outcome = asyncio.run(drive(Wire.HTTP_VERSIONS, step, lambda _: [next(replies)]))
    assert outcome.told == Told(count=5, again=1, low=1, high=5)
    assert outcome.faults == {"503": 1}


def varints(message: bytes) -> dict[int, int | bytes]:
    return dict(grpc.fields(message))


class Etcd:
    """One key with a number, behind transactions that compare its revision."""

    def __init__(self) -> None:
        self.revision, self.number, self.lost = 0, 0, 0

    def answer(self, data: bytes) -> list[bytes]:
        """Each request is a HEADERS and a DATA frame; the greeting before them is not answered."""
        data = data.removeprefix(grpc.greeting())
        out, at = [], 0
        while at < len(data):
            head, _, stream = grpc.FRAME_HEAD.unpack_from(data, at)
            payload, at = data[at + 9 : at + 9 + (head >> 8)], at + 9 + (head >> 8)
            if head & 0xFF == grpc.DATA:
                message = self._txn(varints(payload[5:]))
                out.append(grpc.frame(grpc.DATA, 0, stream, b"\0" + len(message).to_bytes(4, "big") + message))
                out.append(grpc.frame(grpc.HEADERS, grpc.END_STREAM | grpc.END_HEADERS, stream, b""))
        return [b"".join(out)] if out else [grpc.frame(grpc.SETTINGS, grpc.ACK, 0)]

    def _txn(self, request: dict[int, int | bytes]) -> bytes:
        compare, success = varints(grpc.part(request[1])), varints(grpc.part(request[2]))
        if compare[6] != self.revision:
            self.lost += 1
            kv = grpc.field(1, b"key") + grpc.flag(3, self.revision) + grpc.field(5, b"%d" % self.number)
            found = grpc.field(3, grpc.field(1, grpc.field(2, kv) if self.revision else b""))
            return grpc.field(1, grpc.flag(3, self.revision + 100)) + found
        put = varints(grpc.part(success[2]))
        self.revision, self.number = self.revision + 7, int(grpc.part(put[2]))
        return grpc.field(1, grpc.flag(1, 300) + grpc.flag(3, self.revision)) + grpc.flag(2, 1)


@pytest.mark.parametrize("clients", [1, 3])
def test_etcds_equal_of_incr_is_a_loop_of_compare_and_set(clients: int) -> None:
    etcd = Etcd()
    step = Step(exchange=grpc.add(MARK, b""), choice=Choice.FRESH)
    outcome = asyncio.run(drive(Wire.GRPC_ADDING, step, etcd.answer, clients))
    assert etcd.number == 6
    assert outcome.told == Told(count=6, again=0, low=1, high=6)
    assert outcome.retries == etcd.lost
    assert (etcd.lost > 0) == (clients > 1)
    assert outcome.failed == 0


def test_an_answer_of_etcd_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind 1"):
        dict(grpc.fields(b"\x09" + bytes(8)))
    with pytest.raises(ValueError, match="where a message should be"):
        grpc.part(3)
    with pytest.raises(ValueError, match="where a number should be"):
        grpc.whole({3: b"x"}, 3)


def outcome(
    *,
    operations: int = 300,
    faults: dict[str, int] | None = None,
    answered: int = 300,
    again: int = 0,
    p50: float = 5.0,
) -> Outcome:
    latency = Latency(mean=p50, p50=p50, p99=2 * p50, most=3 * p50)
    third = AtNode(operations=operations // 3, latency=latency)
    return Outcome(
        operations=operations,
        seconds=1.0,
        latency=latency,
        nodes=(third, third, third),
        faults=faults or {},
        unanswered=0,
        answered=answered,
        server_cpu_s=operations * 200e-6,
        generator_cpu_s=0.1,
        stolen_share=0.0,
        others_share=0.0,
        told=Told(count=answered, again=again, low=1, high=answered),
    )


@pytest.mark.parametrize(
    ("faults", "there", "again", "found"),
    [
        ({}, 300, 0, (0, 0, 0)),
        ({}, 299, 0, (1, 0, 0)),
        ({}, 301, 0, (0, 1, 0)),
        ({"INDEFINITE": 2}, 302, 0, (0, 0, 0)),
        ({"BUSY": 2}, 302, 0, (0, 2, 0)),
        ({}, 300, 1, (0, 0, 1)),
    ],
    ids=["sound", "lost", "invented", "unknown ones may have been written", "refused ones not", "told twice"],
)
def test_what_is_there_is_held_against_what_was_acknowledged(
    faults: dict[str, int], there: int, again: int, found: tuple[int, int, int]
) -> None:
    done = outcome(faults=faults, again=again)
    for adds, ending in ((True, Ending(1, b"%d" % there)), (False, Ending(there, b"v"))):
        seen = wrong([Stretch(outcome=done, ending=ending)], adds=adds)
        assert (seen.lost, seen.invented, seen.again) == found


def test_numbers_that_were_told() -> None:
    assert told([]) == Told()
    assert told([3, 1, 3]) == Told(count=3, again=1, low=1, high=3)


def test_verdicts_of_a_hot_key() -> None:
    by = {
        workload.name: {
            EPOXY: figures([outcome(operations=600)]),
            EPOXY_INCR: figures([outcome(operations=300, faults={"BUSY": 3})]),
            EPOXY_HTTP_PUT: figures([outcome(p50=0.01)]),
            ETCD: figures([outcome(operations=450)]),
            ETCD_LOOP: figures([outcome(operations=30)]),
        }
        for workload in HOT
    }
    ratios = {verdict.claim: (verdict.found, verdict.held) for verdict in hot_claims.against_etcd(by)}
    assert ratios[f"{SET_SPREAD.title}, {EPOXY}: a second, to etcd's put"] == ("1.33x", True)
    assert ratios[f"{ADD_SPREAD.title}, {EPOXY_INCR}: a second, to etcd's put"] == ("0.67x", False)
    assert ratios[f"{ADD_SPREAD.title}, {EPOXY_INCR}: a second, to etcd's compare-and-set loop"] == ("10.00x", True)
    assert {v.held for v in hot_claims.fair(by)} == {True}
    failing = [v.claim for v in hot_claims.unfailing(by) if not v.held]
    assert len(failing) == 4
    assert all(EPOXY_INCR in claim for claim in failing)
    assert [v.held for v in hot_claims.no_sooner(by, 0.1)] == [False] * 4


def pair(ours_us: float, theirs_us: float) -> Pair:
    one = outcome()
    return Pair(
        ours=msgspec.structs.replace(one, server_cpu_s=one.operations * ours_us / 1e6),
        baseline=msgspec.structs.replace(one, server_cpu_s=one.operations * theirs_us / 1e6),
    )


def test_cold_keys_are_judged_by_the_median_of_pairs() -> None:
    close, _ = cold.verdicts("fresh", [pair(101, 100), pair(300, 100), pair(100, 100)])
    assert (close.held, close.found[:6]) == (True, "1.010x")
    far, _ = cold.verdicts("fresh", [pair(103, 100)] * 3)
    assert not far.held
    assert cold.table({"fresh": [pair(103, 100)]}, "abc").rows[2][2] == "1.030x"


def test_a_baseline_has_a_compiled_build(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make fast"):
        cold.interpreter(tmp_path)
    assert cold.commit_of(tmp_path) == tmp_path.name


def test_hot_keys_are_written_down_alone_or_with_everything(tmp_path: Path) -> None:
    assert command.parts(options("--parts", "hot")) == ["hot"]
    assert command.parts(options())[0] == "hot"
    with pytest.raises(ValueError, match="or hot alone"):
        command.session(options("--write", "--parts", "hot,compare"), tmp_path)
    with pytest.raises(ValueError, match="without Epoxy"):
        command.hot_keys(options("--systems", "etcd"), tmp_path)


def test_the_smallest_run_of_a_hot_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three real nodes, no etcd, half of the workloads."""
    for module in (hot, hot_claims):
        monkeypatch.setattr(module, "HOT", (ADD_SPREAD, hot.SET_ALONE))
    makers = Makers(tmp_path, {}, Path(sys.executable))
    part = hot_claims.hot_part(makers, [EPOXY], tmp_path / "hot", Plan(rounds=1, warm_s=0.0, seconds=0.2))
    assert isinstance(part, Part)
    by_claim = {verdict.claim.partition(", Epoxy")[2]: verdict for verdict in part.verdicts}
    sums: list[Verdict] = [verdict for words, verdict in by_claim.items() if "acknowledged ones" in words]
    assert sums
    assert all(verdict.held for verdict in sums)
    assert [row[1] for row in part.tables[0].rows] == [EPOXY_INCR, EPOXY, EPOXY_HTTP_PUT]
