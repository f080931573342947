"""`epoxy versions`: the numbers of this build are those that its parts use."""

import json

from click.testing import CliRunner

from epoxy import __version__
from epoxy.api.http import relay
from epoxy.backup import format as backup_format
from epoxy.cli.versions import versions
from epoxy.codec import wire
from epoxy.datacenter import link_ends
from epoxy.model.envoy_messages import PROTOCOL_VERSION
from epoxy.store.embedded import datadir, migration
from epoxy.store.postgres import migration as tables_migration


def test_in_json_they_are_those_that_are_used() -> None:
    told = json.loads(CliRunner().invoke(versions, ["--json"]).stdout)
    assert told["release"] == __version__
    assert told["wire"] == {"oldest": 5, "newest": 5}
    assert told["data_directory"] == {"oldest": migration.FROM_FORMAT, "newest": datadir.FORMAT}
    earlier = [int.from_bytes(header, "little") for header in wire.STORED_HEADERS]
    assert told["rows"] == {"oldest": min(earlier), "newest": max(earlier)}
    assert told["tables"] == tables_migration.FORMAT
    assert told["backup"] == backup_format.VERSION
    assert told["envoy_wire"] == PROTOCOL_VERSION
    assert link_ends.PROTOCOL.endswith(b"/%d" % told["nodes_wire"])
    assert relay.PROTOCOL.endswith(b"/%d" % told["relay_wire"])


def test_in_words() -> None:
    told = CliRunner().invoke(versions, []).stdout
    for words in (
        __version__,
        "5 between replicas",
        "writes format 5, migrates 4",
        "writes format 4, reads 2 and later",
    ):
        assert words in told
