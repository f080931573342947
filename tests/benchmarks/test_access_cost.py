"""The benchmark of access: replies are counted however they arrive, errors are noticed, ratios are what they say."""

import itertools

import pytest

from benchmarks.access_cost import Replies, Served, Variant, Window, change, redis_command, told, workloads

BULK = b"$2\r\nab\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"


@pytest.mark.parametrize(("lines", "reply"), [(1, b"+OK\r\n"), (2, BULK), (0, ANSWER)])
def test_replies_are_counted_in_any_pieces(lines: int, reply: bytes) -> None:
    stream = reply * 7
    for size in (1, 3, 7, 50, 1000):
        replies = Replies(lines)
        counts = [replies.count(stream[at : at + size]) for at in range(0, len(stream), size)]
        assert sum(counts) == 7


@pytest.mark.parametrize(
    ("lines", "data"),
    [(1, b"-NOAUTH x\r\n"), (2, BULK + b"-NOPERM x\r\n"), (0, ANSWER + b"HTTP/1.1 401 Unauthorized\r\n\r\n")],
)
def test_an_error_ends_the_run(lines: int, data: bytes) -> None:
    with pytest.raises(AssertionError):
        Replies(lines).count(data)


def test_a_change_is_the_median_and_the_middle_half() -> None:
    found = change([1.0, 1.01, 1.02, 1.03, 1.04])
    assert str(found) == "+2.0% (+0.5% to +3.5%)"


def test_the_report_marks_what_is_above_the_goal() -> None:
    cluster = Served(http=1, resp=2, pids=(), tokens={})
    variants = [Variant(name=name, cluster=cluster) for name in ("open", "cheap", "dear")]
    rounds = [[Window(100.0, 10.0), Window(99.0, 10.1), Window(90.0, 11.0)]] * 4
    first = next(workloads())
    lines = told(first, variants, rounds).splitlines()
    assert lines[0] == f"{first.name}: open 100 a second, 10.0 us of CPU each"
    assert "ABOVE" not in lines[1]
    assert lines[2].endswith("ABOVE 2%")


def test_workloads_ask_for_their_own_keys() -> None:
    variant = Variant(name="open", cluster=Served(http=1, resp=2, pids=(), tokens={}), token="t")
    for workload in workloads():
        make = workload.make(variant)
        requests = list(itertools.islice(iter(make, None), 3))
        assert len(set(requests)) == 3
        assert all(b"bench/" in each or b"bench%2F" in each for each in requests)
        assert all((b"Authorization: Bearer t" in each) == (workload.lines == 0) for each in requests)
    assert redis_command(b"GET", b"k") == b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
