"""`epoxy txn`: what it prints, and how it exits. What a node does with a transaction: tests/api/http/test_txn.py."""

import json
from pathlib import Path

import pytest

from epoxy.cli import transactions
from epoxy.cli.main import run
from epoxy.client import TxnResult
from epoxy.codec import txn_json
from epoxy.model.transactions import Done

TRANSFER = b"""{"compare": [{"key": "acct/a", "value": "7"}], "then": [{"op": "put", "key": "acct/a", "value": "2"}],
"else": [{"op": "delete", "key": "acct/b"}], "reads": ["acct/c"]}"""


def test_a_file_that_is_no_transaction_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "txn.json"
    file.write_text('{"then": [{"op": "sell", "key": "k"}]}')
    assert run(["txn", str(file)]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert told.err.startswith(f"epoxy: {file}: ")


@pytest.mark.parametrize("succeeded", [True, False])
def test_what_was_seen_read_and_done(succeeded: bool, capsys: pytest.CaptureFixture[str]) -> None:
    asked = txn_json.decode_txn(TRANSFER)
    result = TxnResult(
        succeeded=succeeded,
        seen=(b"7",),
        results=(Done(value=b"7"),),
        reads=(None,),
        latency_ms=1.5,
        seen_versions=(4,),
        read_versions=(0,),
    )
    transactions.tell_words(asked, result)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    head, operation = ("done", "put acct/a") if succeeded else ("the compares did not hold", "delete acct/b")
    assert lines[:2] == [head, "saw acct/a was 7"]
    assert lines[2].startswith("read acct/c was ")
    assert lines[3].startswith(f"{operation}: was ")
    assert lines[4] == "took 1.5 ms"
    transactions.tell_json(asked, result)
    assert json.loads(capsys.readouterr().out)["succeeded"] is succeeded
