"""The benchmark of leases: it refuses what cannot be, and its smallest rounds, with real holders that are killed, run
against a server in this process."""

import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import hiredis
import pytest

from benchmarks.columns import PAGE
from benchmarks.leases import __main__ as program
from benchmarks.leases import many
from benchmarks.leases.doors import RespDoor, creating
from benchmarks.leases.many import LEASES, Other, Took, left_until, none_early, write_all
from benchmarks.leases.takeover import Place, Round, Scene, one_round, rows_of, verdict
from benchmarks.plausible import Impossible
from benchmarks.suite.systems.epoxy import Node

HERE, FAR = Place("loopback", 1), Place("far", 2, 150.0)


def made(place: Place = HERE, *, beyond_s: float = 0.1, renewed_s: float = 0.01, ttl_s: float = 2.0) -> Round:
    acquired_s = 10.0 + ttl_s + beyond_s
    return Round(place=place, ttl_s=ttl_s, sent_s=10.0 - renewed_s, killed_s=10.0, acquired_s=acquired_s)


class Keys(socketserver.ThreadingTCPServer):
    """SET [NX] PX, PEXPIRE and DEL. What was renewed ends `late_s` after its time to live; `reply` answers all SETs
    instead."""

    daemon_threads = True

    def __init__(self, late_s: float) -> None:
        super().__init__(("127.0.0.1", 0), Session)
        self.late_s = late_s
        self.reply = b""
        self.ends: dict[bytes, float] = {}
        self.lock = threading.Lock()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def answer(self, words: list[bytes]) -> bytes:
        name, key, *rest = words
        with self.lock:
            held = self.ends.get(key, 0.0) > time.monotonic()
            if name == b"DEL" or (name == b"PEXPIRE" and not held):
                return b":%d\r\n" % (self.ends.pop(key, None) is not None)
            if name == b"SET" and self.reply:
                return self.reply
            if b"NX" in rest and held:
                return b"$-1\r\n"
            late_s = self.late_s if name == b"PEXPIRE" else 0.0
            self.ends[key] = time.monotonic() + int(rest[-1]) / 1000 + late_s
            return b"+OK\r\n" if name == b"SET" else b":1\r\n"


class Session(socketserver.BaseRequestHandler):
    server: Keys

    def handle(self) -> None:
        reader = hiredis.Reader()
        while data := self.request.recv(65_536):
            reader.feed(data)
            while words := reader.gets():
                self.request.sendall(self.server.answer(words))


@pytest.fixture
def keys() -> Iterator[Keys]:
    with Keys(late_s=0.05) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_holder_that_is_killed_is_followed_after_its_time(keys: Keys) -> None:
    place = Place("loopback", keys.port)
    found = one_round("resp", place, place, 2.0)
    assert found.acquired_s >= found.sent_s + 2.0
    assert found.sent_s <= found.killed_s < found.acquired_s
    assert keys.ends == {}, "the next holder gives it back"


def test_a_server_that_ends_leases_early_makes_the_run_fail(keys: Keys) -> None:
    keys.late_s = -1.5
    place = Place("loopback", keys.port)
    with pytest.raises(Impossible, match=r"a lease of 2 s was another's .* before its end"):
        one_round("resp", place, place, 2.0)


def test_a_round_counts_from_the_kill_and_is_judged_from_the_renewal() -> None:
    assert made(beyond_s=0.25).checked().beyond_ms == pytest.approx(250)
    assert made(beyond_s=-0.005).checked().beyond_ms == pytest.approx(-5)
    with pytest.raises(Impossible, match=r"10\.0 ms before its end"):
        made(beyond_s=-0.02).checked()
    with pytest.raises(Impossible, match="killed before"):
        made(renewed_s=-0.01).checked()


def test_regions_are_allowed_two_floors_more() -> None:
    scene = Scene(system="Epoxy", waits="polls", door="resp", places=(HERE,))
    assert verdict(scene, [made(), made(beyond_s=1.0)]).held
    assert not verdict(scene, [made(), made(beyond_s=1.1)]).held
    apart = Scene(system="Epoxy", waits="polls", door="resp", places=(FAR,))
    assert verdict(apart, [made(FAR, beyond_s=1.29)]).found == "1290 ms (far: 1300)"
    assert not verdict(apart, [made(FAR, beyond_s=1.31)]).held


def test_one_row_for_the_loopback_and_one_for_each_region() -> None:
    near = Place("near", 3, 70.0)
    scene = Scene(system="Epoxy", waits="polls", door="resp", places=(HERE,))
    assert [row[2:] for row in rows_of(scene, [made(), made(beyond_s=0.3)])] == [["loopback", "2 s", "2", "100", "300"]]
    apart = Scene(system="Epoxy", waits="polls", door="resp", places=(near, FAR))
    assert [row[2] for row in rows_of(apart, [made(FAR), made(near)])] == ["near (70 ms)", "far (150 ms)"]


def test_an_unknown_outcome_is_not_asked_again_and_a_definite_one_is(keys: Keys) -> None:
    door = RespDoor(keys.port)
    keys.reply = b"-UNAVAILABLE no quorum\r\n"
    assert not door.take("k", 1.0)
    keys.reply = b"-INDEFINITE it may be written\r\n"
    with pytest.raises(RuntimeError, match="INDEFINITE"):
        door.take("k", 1.0)
    with pytest.raises(RuntimeError, match="PEXPIRE k"):
        door.renew()
    door.close()


def test_etcd_puts_with_its_lease_if_the_key_is_absent() -> None:
    asked = str(creating("k", "77"))
    assert "'create_revision': '0'" in asked
    assert "'lease': '77'" in asked


def test_leases_are_written_in_pipelines_and_a_refusal_is_told(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "BATCH", 4)
    write_all(keys.port, 10, lambda: 60_000)
    assert len(keys.ends) == 10
    keys.reply = b"-UNAVAILABLE no quorum\r\n"
    with pytest.raises(RuntimeError, match=r"SET PX.*UNAVAILABLE"):
        write_all(keys.port, 10, lambda: 60_000)


def test_leases_that_are_gone_before_their_end_make_the_run_fail() -> None:
    none_early(9, 10, now_s=5.1, end_s=5.0)
    none_early(10, 10, now_s=4.9, end_s=5.0)
    with pytest.raises(Impossible, match=r"1 of 10 leases had ended 0.1 s before"):
        none_early(9, 10, now_s=4.9, end_s=5.0)


def test_no_lease_is_given_less_than_it_takes_to_write_them() -> None:
    assert left_until(time.monotonic() + 60) > 50_000
    with pytest.raises(RuntimeError, match="too busy"):
        left_until(time.monotonic())


def test_the_end_is_awaited_at_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {1: [5, 0], 2: [5, 2, 0]}
    monkeypatch.setattr(many, "leases_at", lambda node: left[node.id].pop(0))
    monkeypatch.setattr(many, "LOOK_S", 0.0)
    nodes = [cast(Node, SimpleNamespace(id=number)) for number in left]
    end_s = time.monotonic()
    first, second = many.await_end(nodes, 5, end_s)
    assert 0 < first < second
    assert left == {1: [], 2: []}


def test_the_metric_and_the_other_clients_window() -> None:
    found = LEASES.search("epoxy_leases_late_seconds 4.0\nepoxy_leases 1e+05\n")
    assert found is not None
    assert float(found[1]) == 100_000
    other = Other(1)
    other.samples = [Took(1.0, 5.0), Took(2.0, 6.0), Took(3.0, 7.0)]
    assert other.between(2.0, 3.0) == [6.0]
    with pytest.raises(RuntimeError, match="no SET"):
        other.between(4.0, 5.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--parts", "holders"], "there is no part 'holders'"),
        (["--rounds", "0"], "at least 1"),
        (["--write", "--etcd", "x", "--leases", "500"], "less is a look"),
        (["--write"], "--write needs --etcd"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(words: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["leases", *words])
    with pytest.raises(SystemExit, match=said):
        program.main()


def test_the_page_has_a_place_for_the_figures() -> None:
    page = PAGE.read_text("utf-8")
    assert f"<!-- {program.MARK} -->\n" in page
    assert f"<!-- /{program.MARK} -->\n" in page
