"""Locks of real processes: holders that stop, holders that die, and nodes that restart. No lease ends early, and what
comes late is refused by its token."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from epoxy import Client, KeyExists, OutcomeUnknown, Unavailable, testing

TTL_S = 1.5

HOLDER = """
import sys
from epoxy import Client, Lost

client = Client(*sys.argv[2:])
with client.lock("job", ttl=float(sys.argv[1])) as lock:
    print(lock.token, flush=True)
    sys.stdin.readline()
    try:
        lock.check()
        print("held", flush=True)
    except Lost as error:
        print("Lost:", error, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[testing.Cluster]:
    with testing.cluster(3) as cluster:
        yield cluster


class Holder:
    def __init__(self, cluster: testing.Cluster) -> None:
        urls = [node.url for node in cluster]
        words = [sys.executable, "-c", HOLDER, str(TTL_S), *urls]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.token = int(self.told())

    def told(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def holder_of(cluster: testing.Cluster) -> Iterator[Holder]:
    holder = Holder(cluster)
    try:
        yield holder
    finally:
        holder.end()


class Fenced:
    """A resource that remembers the highest token."""

    def __init__(self) -> None:
        self.highest = 0

    def takes(self, token: int) -> bool:
        if token < self.highest:
            return False
        self.highest = token
        return True


def test_a_holder_that_is_stopped_past_its_time_loses_the_lock_and_its_token_is_stale(cluster: testing.Cluster) -> None:
    resource = Fenced()
    with holder_of(cluster) as holder, cluster.client() as client:
        assert resource.takes(holder.token)
        holder.send(signal.SIGSTOP)
        with client.lock("job", ttl=30) as another:
            assert another.token > holder.token
            assert resource.takes(another.token)
            holder.send(signal.SIGCONT)
            holder.go_on()
            assert holder.told().startswith("Lost: the lock job ")
            assert not resource.takes(holder.token)
            another.check()


def test_a_holder_that_is_killed_is_followed_after_its_time(cluster: testing.Cluster) -> None:
    with holder_of(cluster) as holder, cluster.client() as client:
        holder.send(signal.SIGKILL)
        killed = time.monotonic()
        with client.lock("job", ttl=30) as another:
            waited = time.monotonic() - killed
            assert another.token > holder.token
    assert waited >= TTL_S / 2, "it was renewed a third of its time before it died, at most"


def test_nodes_that_are_killed_and_restarted_end_no_lease_early(cluster: testing.Cluster) -> None:
    """All but one. A restarted replica counts anew."""
    with cluster.client() as client:
        sent = time.monotonic()
        held = client.put("lease", "mine", ttl=TTL_S, if_absent=True)
        for node in cluster.nodes[1:]:
            node.kill()
        for node in cluster.nodes[1:]:
            node.start()
        next_version, ended = take_over(client)
    assert ended - sent >= TTL_S
    assert next_version > held.version


def take_over(client: Client) -> tuple[int, float]:
    while True:
        try:
            return client.put("lease", "another's", ttl=30, if_absent=True).version, time.monotonic()
        except (KeyExists, Unavailable):
            continue
        except OutcomeUnknown:
            found = client.read("lease", read="linearizable")
            if found.value == b"another's":
                return found.version, time.monotonic()
