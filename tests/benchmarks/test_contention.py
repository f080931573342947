"""Workloads on shared keys: their arithmetic, and the smallest run of each in a world without distances."""

import asyncio
import importlib
from pathlib import Path

import pytest

from benchmarks.columns import Part
from benchmarks.contention import minority as minority_module
from benchmarks.contention import races as races_module
from benchmarks.contention import run, world
from benchmarks.contention.asker import Answer, failed, understood
from benchmarks.contention.bounds import (
    above_way,
    account,
    at_least,
    at_most,
    early,
    least_ms,
    middle_and_tail,
    none,
    owner_of,
    shares,
    slow_count,
    stale,
    told,
    way_ms,
    worst,
)
from benchmarks.contention.feed import Feed
from benchmarks.contention.gray import FAILURES, watched
from benchmarks.contention.hot import etcd_rate
from benchmarks.contention.part import Setting
from benchmarks.contention.races import Race, Tally, add
from benchmarks.contention.slow_disk import SYNC_S, slowed
from benchmarks.load import Sample
from benchmarks.peers.wan import FIVE
from benchmarks.plausible import Impossible
from benchmarks.stats import epoxy_floor
from tests.benchmarks.fake_world import WORLDS, fake_running

TOKYO, DUBLIN, HOME = "ap-northeast-1", "eu-west-1", "us-east-1"


def answer(
    region: str = HOME,
    took_ms: float = 100.0,
    *,
    began_s: float = 0.0,
    status: int = 200,
    version: int = 0,
    code: str = "",
    definite: bool = True,
    value: str = "",
) -> Answer:
    return Answer(
        region=region,
        began_s=began_s,
        took_ms=took_ms,
        status=status,
        version=version,
        code=code,
        definite=definite,
        value=value,
    )


def test_a_write_goes_to_its_owner_and_back_or_to_the_nearest_quorum() -> None:
    assert way_ms(HOME, HOME, FIVE) == epoxy_floor(HOME, FIVE) == 72.5
    assert way_ms(TOKYO, HOME, FIVE) == pytest.approx(152.4 + 72.5)
    assert least_ms(TOKYO, FIVE) == 152.4
    assert least_ms(DUBLIN, FIVE) == 127.3


def test_what_is_acknowledged_sooner_than_possible_is_counted_and_failures_are_not() -> None:
    quick = [answer(HOME, 72.0), answer(HOME, 70.0), answer(TOKYO, 150.0), answer(TOKYO, 1.0, status=429)]
    assert early(quick, FIVE) == 2


def test_the_owner_is_the_region_from_which_the_figures_follow() -> None:
    of_dublin = {region: way_ms(region, DUBLIN, FIVE) + 3 for region in FIVE}
    assert owner_of(of_dublin, FIVE) == DUBLIN
    waiting = {region: way_ms(region, DUBLIN, FIVE) + (120 if region == DUBLIN else 10) for region in FIVE}
    assert owner_of(waiting, FIVE) == DUBLIN, "none is sooner than possible with it, however long its own clients wait"
    assert owner_of(dict.fromkeys(FIVE, 1.0), FIVE) in FIVE
    assert worst(above_way({**of_dublin, TOKYO: 900.0}, DUBLIN, FIVE))[0] == TOKYO


@pytest.mark.parametrize(
    ("versions", "indefinite", "after", "again", "missing"),
    [
        ([2, 3, 4], 0, 4, 0, 0),
        ([2, 3, 3], 0, 4, 1, 0),
        ([2, 3, 4], 0, 3, 0, 1),
        ([2, 3, 4], 0, 5, 0, 1),
        ([2, 3, 4], 1, 5, 0, 0),
        ([2, 3, 4], 1, 6, 0, 1),
    ],
    ids=["sound", "told twice", "lost", "invented", "the unknown one was written", "more than that"],
)
def test_versions_are_held_against_what_was_acknowledged(
    versions: list[int], indefinite: int, after: int, again: int, missing: int
) -> None:
    answers = [answer(version=version) for version in versions]
    answers += [answer(status=503, code="consensus_failed", definite=False)] * indefinite
    answers += [answer(status=429, code="overloaded")]
    found = account(answers, before=1, after=after)
    assert (found.again, found.missing) == (again, missing)
    assert found.sound == (again == 0 and missing == 0)


def test_shares_are_of_an_even_one() -> None:
    assert shares({"a": 30, "b": 10}) == {"a": 1.5, "b": 0.5}
    assert shares({"a": 0, "b": 0}) == {"a": 0.0, "b": 0.0}


def test_slow_is_what_takes_half_as_long_again_and_what_failed() -> None:
    assert slow_count([answer(took_ms=169), answer(took_ms=171), answer(took_ms=1, status=503)], 100.0) == 2


def test_a_read_is_stale_that_saw_less_than_was_acknowledged_before_it_began() -> None:
    writes = [answer(began_s=1.0, version=5), answer(began_s=2.0, version=6)]
    reads = [answer(began_s=1.05, version=4), answer(began_s=1.2, version=5), answer(began_s=1.2, version=4)]
    assert stale(reads, writes) == 1


def test_verdicts_say_what_was_wanted_and_found() -> None:
    assert at_most("a", 5.0, 4.96, " ms", "here").found == "5.0 ms (here)"
    assert not at_most("a", 2, 3, "").held
    assert at_most("a", 2, 3, "").found == "3"
    assert at_most("a", 5.0, float("inf"), " ms").found == "none ms"
    assert at_least("a", 1.0, 0.994, "x").found == "0.99x"
    assert not at_least("a", 1.0, 0.994, "x").held
    assert none("a", 0, "words").found == "0"
    assert none("a", 2, "words").found == "2 (words)"
    assert middle_and_tail([]) == "none"
    assert middle_and_tail([1.0, 2.0, 3.0]) == "2.0, 3.0"


def test_an_answer_tells_its_version_its_error_and_who_won() -> None:
    won = understood(HOME, 0.0, 1.0, 201, b'{"version":1,"value":"x","mine":true}')
    assert (won.ok, won.version, won.value) == (True, 1, "x")
    lost = understood(HOME, 0.0, 1.0, 409, b'{"error":{"code":"taken"},"committed":{"version":1,"value":"y"}}')
    assert (lost.ok, lost.code, lost.value, lost.definite) == (False, "taken", "y", True)
    unknown = understood(HOME, 0.0, 1.0, 503, b'{"error":{"code":"consensus_failed","definite":false}}')
    silent = understood(HOME, 0.0, 1.0, 0, b"")
    assert told(failed([won, unknown, silent])) == "1 consensus_failed, indefinite, 1 silent, indefinite"


def test_a_feed_notes_when_a_key_came_first_also_in_two_pieces() -> None:
    feed = Feed("race")
    feed.data_received(b'data: {"key":"race/ab/1')
    assert not feed.seen_s
    feed.data_received(b'2"}\n\ndata: {"key":"other/ab/3"}\n')
    (moment,) = feed.seen_s.values()
    feed.data_received(b'data: {"key":"race/ab/12"}\n')
    assert feed.seen_s == {"race/ab/12": moment}


def test_a_race_has_one_winner_and_losers_are_told_who() -> None:
    won = answer(HOME, 145.0, status=201, value=HOME)
    lost = answer(DUBLIN, 254.6, status=409, code="taken", value=HOME)
    tally = Tally(racers=2)
    add(tally, Race(answers=[won, lost], known_s={DUBLIN: 0.2}))
    assert (tally.winners, tally.losers, tally.split, tally.failed) == ([2.0], [2.0], 0, 0)
    assert tally.lag_ms == pytest.approx([54.6])
    add(tally, Race(answers=[won, answer(DUBLIN, 254.6, status=201)], known_s={}))
    add(tally, Race(answers=[won, answer(DUBLIN, 254.6, status=409, code="taken", value=TOKYO)], known_s={}))
    add(tally, Race(answers=[won, answer(DUBLIN, status=503)], known_s={}))
    assert (tally.split, tally.failed, tally.early) == (2, 1, 0)


def test_a_request_counts_for_a_failure_that_it_was_under_way_in() -> None:
    stop = FAILURES[0]
    before, during = answer(TOKYO, 100.0, began_s=0.5), answer(TOKYO, 900.0, began_s=0.9)
    seen = watched(stop, TOKYO, "reads", [before, during, answer(TOKYO, 210.0, began_s=2.0)], 1.0, 3.0)
    assert (seen.slow, seen.count, seen.usual, seen.excused) == (1, 2, 0, False)
    assert seen.floor == epoxy_floor(TOKYO, FIVE, missing=[HOME])
    assert watched(stop, HOME, "reads", [], 1.0, 3.0).excused


def test_etcd_is_held_to_its_own_floor() -> None:
    rate, rows = etcd_rate({TOKYO: [Sample(TOKYO, 0.0, 230.0, True)] * 20}, 2.0)
    assert (rate, rows) == (10.0, [[TOKYO, "10.0", "230.0"]])
    with pytest.raises(Impossible):
        etcd_rate({TOKYO: [Sample(TOKYO, 0.0, 220.0, True)]}, 1.0)


def test_a_disk_is_slow_while_its_file_is_there(tmp_path: Path) -> None:
    slept: list[float] = []
    call = slowed(lambda number: number + 1, tmp_path / "flag", slept.append)
    assert (call(1), slept) == (2, [])
    (tmp_path / "flag").touch()
    assert (call(1), slept) == (2, [SYNC_S])


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """All regions in this process, and no pauses for what is under way."""
    for name in ("gray", "hot", "minority", "races", "readers", "writers"):
        monkeypatch.setattr(importlib.import_module(f"benchmarks.contention.{name}"), "running", fake_running)
    monkeypatch.setattr(world, "SETTLE_S", 0.0)
    monkeypatch.setattr(races_module, "PAUSE_S", 0.1)
    monkeypatch.setattr(minority_module, "LATER_S", 0.01)


def smallest(name: str, folder: Path) -> Part:
    setting = Setting(folder=folder, scale=0.02)
    return asyncio.run(run.measured([name], setting))[name]


def held(part: Part) -> dict[str, bool]:
    """By what is claimed, without of whom."""
    found: dict[str, bool] = {}
    for verdict in part.verdicts:
        words = verdict.claim.partition(": ")[2]
        found[words] = found.get(words, True) and verdict.held
    return found


@pytest.mark.usefixtures("near")
def test_the_smallest_run_of_a_hot_key(tmp_path: Path) -> None:
    found = held(smallest("hot", tmp_path))
    assert found["failed writes"]
    assert found["versions told twice"]
    assert found["the version grew by what was acknowledged"]
    assert not found["acknowledged sooner than possible"], "there are no distances here: it must be noticed"
    assert "proxied True" in WORLDS[-1].done


@pytest.mark.usefixtures("near")
def test_the_smallest_run_of_races(tmp_path: Path) -> None:
    part = smallest("races", tmp_path)
    found = held(part)
    assert found["without an answer"]
    assert found["two winners, or another's value told"]
    assert not found["winners sooner than possible"]
    assert [row[0] for row in part.tables[0].rows] == ["2", "3", "5"]
    assert all(row[4] for row in part.tables[0].rows), "every loser's home was seen to know"


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("name", ["distant", "loops"])
def test_the_smallest_run_of_few_writers(name: str, tmp_path: Path) -> None:
    part = smallest(name, tmp_path)
    assert held(part)["failed writes"]
    assert held(part)["versions told twice or missing"]
    assert not held(part)["acknowledged sooner than possible"]
    assert len(part.tables[0].rows) == (2 if name == "distant" else 10)


@pytest.mark.usefixtures("near")
def test_the_smallest_run_of_readers(tmp_path: Path) -> None:
    part = smallest("readers", tmp_path)
    assert held(part)["reads that saw less than was acknowledged"]
    assert held(part)["failed"]
    assert not held(part)["writes sooner than possible"]
    assert len(part.tables[0].rows) == 10


@pytest.mark.usefixtures("near")
def test_the_smallest_run_of_gray_failures(tmp_path: Path) -> None:
    part = smallest("gray", tmp_path)
    assert len(part.verdicts) == 12
    assert held(part)["failed"]
    done = WORLDS[-1].done[-4:]
    assert done == ["stop us-east-1", "cut us-east-1 us-west-2", "cut us-east-1>us-west-2", "slow us-east-1"]


@pytest.mark.usefixtures("near")
def test_the_smallest_run_without_a_quorum(tmp_path: Path) -> None:
    part = smallest("minority", tmp_path)
    refusals = {verdict.claim.partition(": ")[2]: verdict for verdict in part.verdicts}
    assert refusals["refusals that are not definite"].found == "4 of 6"
    assert refusals["back again, until a name is reserved"].found != "none ms"
    assert [row[4] for row in part.tables[0].rows] == ["no", "no", "yes"] * 2
