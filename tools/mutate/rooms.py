"""What is changed, and what should notice: for each room its sources, its tests and, where it has one, a simulation."""

from pathlib import Path

from msgspec import Struct

PER_KEY = ("per-key", "--seeds", "0..120")
MUTABLE = ("mutable", "--seeds", "0..80")
MEMBERS = ("membership", "--seeds", "0..40")
ORDERED = ("ordered", "--seeds", "0..40")
ORDERED_REPLICA = ("tests/protocol/txn/test_archive.py", "tests/protocol/txn/test_catchup.py")


class Room(Struct, frozen=True, kw_only=True):
    """`tests` are those of the room; `more` are run only for what these let pass. `sims` are words for `epoxy sim`."""

    name: str
    tests: tuple[str, ...]
    sims: tuple[tuple[str, ...], ...] = ()
    more: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return f"src/epoxy/{self.name}"


def room(name: str, *sims: tuple[str, ...], tests: tuple[str, ...] = (), more: tuple[str, ...] = ()) -> Room:
    return Room(name=name, tests=(f"tests/{name}", *tests), sims=sims, more=more)


ROOMS = {
    each.name: each
    for each in (
        room("model"),
        room("codec"),
        room("protocol/keys", PER_KEY, MUTABLE, tests=("tests/scenarios",)),
        room(
            "protocol/members",
            MEMBERS,
            more=("tests/node/members/test_member.py", "tests/node/members/test_key_sync.py"),
        ),
        room("protocol/txn", ORDERED, more=("tests/node/txn/test_engine.py", "tests/node/txn/test_votes.py")),
        room("protocol/placement", ("placement", "--seeds", "0..30")),
        room("actors", ("placement", "--seeds", "0..30"), tests=("tests/protocol/placement/test_service.py",)),
        room("protocol/elect", ("elect", "--seeds", "0..150")),
        room("agent", more=("tests/end_to_end/test_elect.py",)),
        room("store", MUTABLE),
        room("node", PER_KEY, MUTABLE, MEMBERS, ORDERED, tests=ORDERED_REPLICA),
        room("transport", more=("tests/end_to_end/test_redis.py", "tests/end_to_end/test_partitions.py")),
        room("api", more=("tests/end_to_end/test_redis.py", "tests/end_to_end/test_curl.py")),
        room("runtime", PER_KEY),
        room("server"),
        room("client"),
    )
}


def sources(root: Path, name: str) -> list[Path]:
    """Paths below `root`, in order."""
    return sorted(path.relative_to(root) for path in (root / ROOMS[name].source).rglob("*.py"))


def own_tests(root: Path, room: Room, source: Path) -> list[str]:
    """Those named after a source, which notice most, and soonest."""
    found = (root / room.tests[0]).rglob(f"test_{source.stem}*.py")
    return sorted(str(path.relative_to(root)) for path in found)
