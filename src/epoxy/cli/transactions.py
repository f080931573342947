"""`epoxy txn`: a transaction from a file."""

from typing import BinaryIO

import click
from msgspec.structs import asdict

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS
from epoxy.client import TxnResult
from epoxy.codec import txn_json
from epoxy.model.errors import CodecError
from epoxy.model.transactions import Executed, OrderedValue, Txn


@click.command(context_settings=SETTINGS, short_help="Run a transaction over several keys.")
@click.argument("file", type=click.File("rb"), metavar="FILE")
@target.call_options
def txn(file: BinaryIO, call: target.NodeCall) -> None:
    """Run the transaction in FILE: JSON, as `POST /v2/txn` takes it. FILE `-` reads stdin. It happens at one moment, in
    the same order in every datacenter. If every `compare` holds, `then` is done, otherwise `else`. `reads` are answered
    with the values before it.

    Exit status: 0 the compares held; 3 they did not, and `else` was done; 1 failed.

    \b
    Example:
      echo '{"compare": [{"key": "acct/a", "value": "100"}],
             "then": [{"op": "add", "key": "acct/a", "amount": -5},
                      {"op": "add", "key": "acct/b", "amount": 5}],
             "reads": ["acct/b"]}' | epoxy txn -
    """
    try:
        asked = txn_json.decode_txn(file.read(txn_json.MAX_JSON_BYTES + 1))
    except CodecError as error:
        raise click.ClickException(f"{file.name}: {error}") from error
    with call.client(writes=not asked.is_read_only) as client:
        result = client.txn(compares=asked.compares, then=asked.then, otherwise=asked.otherwise, reads=asked.reads)
    tell = tell_json if call.as_json else tell_words
    tell(asked, result)
    raise click.exceptions.Exit(0 if result.succeeded else target.LOST)


def executed_of(result: TxnResult) -> Executed:
    compared = tuple(map(held_of, result.seen, result.seen_versions))
    reads = tuple(map(held_of, result.reads, result.read_versions))
    return Executed(succeeded=result.succeeded, compared=compared, done=result.results, reads=reads)


def held_of(value: bytes | None, version: int) -> OrderedValue:
    return OrderedValue(value=value, version=version)


def tell_json(asked: Txn, result: TxnResult) -> None:
    told = txn_json.executed_json(asked, executed_of(result))
    output.emit_json({**asdict(told), "latency_ms": result.latency_ms})


def tell_words(asked: Txn, result: TxnResult) -> None:
    head = "done" if result.succeeded else "the compares did not hold"
    click.secho(head, fg="green" if result.succeeded else "yellow", bold=True)
    stood = "is" if asked.is_read_only else "was"
    for compare, seen in zip(asked.compares, result.seen, strict=True):
        output.row("saw", f"{output.text_of(compare.key)} {stood} {txn_json.in_words(seen)}")
    for key, found in zip(asked.reads, result.reads, strict=True):
        output.row("read", f"{output.text_of(key)} {stood} {txn_json.in_words(found)}")
    for operation, done in zip(asked.then if result.succeeded else asked.otherwise, result.results, strict=True):
        verb = type(operation).__name__.lower()
        came = done.wrong.value if done.wrong is not None else txn_json.in_words(done.value)
        output.row(verb, f"{output.text_of(operation.key)}: {'was ' if verb in ('put', 'delete') else ''}{came}")
    output.row("took", f"{result.latency_ms:.1f} ms")
