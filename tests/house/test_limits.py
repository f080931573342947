"""docs/limits.md says what the code says: every figure is compared, and no limit of a connection is left out."""

import importlib
import re
from functools import reduce
from pathlib import Path

import msgspec
import pytest

from epoxy.api.resp.limits import RespLimits
from epoxy.node.process.config import Limits
from epoxy.transport.limits import HttpLimits, PeerLimits
from tests.house.test_house import ROOT

PAGE = (ROOT / "docs" / "limits.md").read_text("utf-8")
ROWS = [row for row in PAGE.splitlines() if row.startswith("| ") and not row.startswith(("| bound ", "|---"))]
NAMED = re.compile(r"`([a-z_.]+):([A-Za-z_.]+)`")

TUNING = {"connections", "pipelined", "body_limits", "held_bytes"}
"""Of HTTP and RESP: what a setting of the node replaces, or what has a row of its own."""
OF_LINKS = {"queue_messages", "batch_bytes", "eager_batches", "gather_ms", "lazy_ms", "busy_lazy_ms", "busy_messages"}
OF_LINKS |= {"flying_batches", "connections", "timeout_ms", "tick_ms", "probe_ms", "connect_timeout_ms", "backoff_ms"}
OF_LINKS |= {"backoff_cap_ms"}
"""How links pace themselves, which no other party can exceed: docs/protocol/peers.md has them."""


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def spelled(name: str, value: float) -> str:
    last = name.rsplit(".", 1)[-1].lower()
    if last.endswith("bytes"):
        return f"{value / (1 << 20):g} MiB" if value % (1 << 20) == 0 else f"{int(value) >> 10:,} KiB"
    if last.endswith("_mib"):
        return f"{value:g} MiB"
    if last.endswith("_ms"):
        return f"{value:,.0f} ms"
    return f"{value:g} s" if last.endswith("_s") else f"{value:,.0f}"


def value_of(module: str, path: str) -> float:
    """A constant, or the default of a field."""
    found = importlib.import_module(f"epoxy.{module}")
    owner, *fields = path.split(".")
    holder = getattr(found, owner)
    if fields and isinstance(holder, type):
        assert issubclass(holder, msgspec.Struct)
        return float({field.name: field.default for field in msgspec.structs.fields(holder)}[fields[0]])
    return float(reduce(getattr, fields, holder))


@pytest.mark.parametrize("row", ROWS)
def test_a_figure_is_that_of_the_code(row: str) -> None:
    _bound, default, place, reached, _test = cells(row)
    named = NAMED.search(place)
    if named is not None:
        assert default == spelled(named[2], value_of(named[1], named[2])), named[0]
    assert reached


@pytest.mark.parametrize("row", ROWS)
def test_the_test_that_reaches_it_exists(row: str) -> None:
    place, _, name = cells(row)[-1].strip("`").partition("::")
    path = ROOT / place
    assert path.exists(), place
    assert not name or f"def {name}(" in Path(path).read_text("utf-8"), name


def missing_from(page: str) -> list[str]:
    wanted = [f"HttpLimits.{field}" for field in HttpLimits.__struct_fields__ if field not in TUNING]
    wanted += [f"RespLimits.{field}" for field in RespLimits.__struct_fields__ if field not in TUNING | {"pipeline"}]
    wanted += [f"PeerLimits.{field}" for field in PeerLimits.__struct_fields__ if field not in OF_LINKS]
    wanted += [f"limits.{field}" for field in Limits.__struct_fields__ if not field.startswith("changelog_")]
    return [name for name in wanted if f"{name}`" not in page]


def test_no_limit_is_left_out() -> None:
    assert missing_from(PAGE) == []


def test_a_planted_fault_is_seen() -> None:
    assert missing_from(PAGE.replace("HttpLimits.head_bytes", "HttpLimits.head")) == ["HttpLimits.head_bytes"]
    assert spelled("unsent_bytes", 3 << 10) == "3 KiB"
    assert spelled("MAX_FRAME_BYTES", (4 << 20) + 4096) == "4,100 KiB"
