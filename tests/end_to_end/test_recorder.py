"""A judge that cannot find anything is worth nothing: a real history is tampered with."""

import secrets
from pathlib import Path

import msgspec
import pytest

from epoxy.cli.demo.cluster import DemoCluster
from epoxy_sim.history import Absent, Found, Lost, Operation, Put, Read, Reserve, Won, decode_lines
from tests.end_to_end.recorder import Recorder, judge


@pytest.fixture(scope="module")
def history(trio: DemoCluster) -> list[Operation]:
    """Of unused keys: workers that share the tests may come back to this module."""
    mark = secrets.token_hex(4).encode()
    key, name = b"recorder/key/" + mark, b"recorder/name/" + mark
    recorder = Recorder()
    here, there, _ = trio.nodes
    with here.client() as near, there.client() as far:
        recorder.run("near", near, key, Put(value=b"1"))
        recorder.run("far", far, key, Put(value=b"2", if_version=1))
        recorder.run("near", near, key, Read())
        recorder.run("near", near, name, Reserve(value=b"near"))
        recorder.run("far", far, name, Reserve(value=b"far"))
        recorder.run("far", far, name, Read(linearizable=False))
    return recorder.history


def test_a_real_history_is_right(history: list[Operation], tmp_path: Path) -> None:
    assert judge(history, tmp_path) == 2
    assert [operation.outcome for operation in history] == [
        Won(version=1),
        Won(version=2),
        Found(value=b"2", version=2, mutable=True),
        Won(version=1),
        Lost(value=b"near", version=1, mutable=False),
        Found(value=b"near", version=1, mutable=False),
    ]


@pytest.mark.parametrize(
    ("place", "lie"),
    [
        (2, Found(value=b"1", version=1, mutable=True)),
        (2, Absent(version=0)),
        (4, Won(version=1)),
        (5, Found(value=b"far", version=1, mutable=False)),
    ],
    ids=["a stale read", "a lost write", "two winners", "an invented value"],
)
def test_a_lie_is_found_and_kept(
    history: list[Operation], tmp_path: Path, place: int, lie: Found | Absent | Won
) -> None:
    forged = list(history)
    forged[place] = msgspec.structs.replace(forged[place], outcome=lie)
    with pytest.raises(AssertionError, match="6 operations, kept in"):
        judge(forged, tmp_path)
    assert decode_lines((tmp_path / "history.jsonl").read_bytes()) == forged
