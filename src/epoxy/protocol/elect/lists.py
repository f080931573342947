"""Which nodes count, and how one list of nodes replaces another.

Lists have generations: the first is 0, and every change makes the next. A node counts one list or, during a change, the
old one and the new one: then a majority is one of each. The stage says which: 2g for the list of generation g alone, 2g
+ 1 for those of g and g + 1. Majorities of neighbouring stages always share a node.

A node that is started with another list than the one in its record counts both from then on. A list counts alone once a
primary elected by both is in office: every node that answers it has durably promised to answer and elect no node that
counts only an older list (`ElectRecord.floor`), and those nodes are a majority of the old one. So no node can be
elected by the old list alone any more.
"""

import hashlib
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.errors import ConfigError
from epoxy.protocol.elect.config import ElectConfig, ElectNode

DIGEST_CHARS = 16
"""64 bits tell the lists of operators apart. It need not withstand an attacker: the handshake proves the secret."""


RECORD_TOO_OLD = (
    " (if the others have gone on without this node: empty its node.data_dir; it joins like one that lost its disk)"
)
"""What to do with a node whose record is too old for the change."""


class NodeList(Struct, frozen=True, kw_only=True):
    """One list of nodes, as an operator wrote it. `digest`: of its ids, which is what majorities count; `words`: of all
    settings of the list."""

    nodes: tuple[ElectNode, ...]
    digest: str
    words: str

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(node.id for node in self.nodes)

    @property
    def quorum(self) -> int:
        return len(self.nodes) // 2 + 1

    @property
    def witnesses(self) -> int:
        """Of this many other nodes, one knows every election that was won with a given node's vote."""
        return len(self.nodes) - len(self.nodes) // 2

    @property
    def copies(self) -> int:
        """Data on this many nodes is on a node of every majority. A node that never leads does not count: it votes
        without comparing data."""
        never = sum(not node.promotable for node in self.nodes)
        return min(len(self.nodes), len(self.nodes) - self.quorum + 1 + never)


class Lists(Struct, frozen=True, kw_only=True):
    """`counted`: the list in force and, during a change, the one that will replace it."""

    stage: int
    counted: tuple[NodeList, ...]

    @property
    def is_joint(self) -> bool:
        return len(self.counted) == 2

    @property
    def newest(self) -> NodeList:
        return self.counted[-1]

    @property
    def generation(self) -> int:
        return generation_of(self.stage)

    @property
    def digests(self) -> tuple[str, ...]:
        return tuple(each.digest for each in self.counted)

    @property
    def nodes(self) -> tuple[ElectNode, ...]:
        """All nodes that are counted. For a node in both lists, the newer entry."""
        leaving = (node for each in self.counted[:-1] for node in each.nodes if node.id not in self.newest.ids)
        return (*self.newest.nodes, *leaving)

    @property
    def leaving(self) -> tuple[str, ...]:
        return tuple(sorted(self.counted[0].ids - self.newest.ids))

    @property
    def joining(self) -> tuple[str, ...]:
        return tuple(sorted(self.newest.ids - self.counted[0].ids))

    def has_majority(self, nodes: Iterable[str]) -> bool:
        return all(len(each.ids.intersection(nodes)) >= each.quorum for each in self.counted)

    def has_witnesses(self, nodes: set[str], me: str, floor: "ListFloor") -> bool:
        """Whether these nodes together know every election that this node may have voted in. Until one of them has
        answered a leader of the new list, no election was won without a majority of the old one; and a node that was
        not in the old list had no part in its elections."""
        old = self.counted[0]
        if floor.generation < self.generation:
            return len(old.ids & nodes) >= old.witnesses
        mine = (each for each in self.counted if me in each.ids)
        return all(len(each.ids & nodes) >= each.witnesses for each in mine)

    def words(self) -> str:
        """For HELLO: each generation with its list."""
        first = self.stage // 2
        return ",".join(f"{first + i}:{each.words}" for i, each in enumerate(self.counted))


class ListFloor(Struct, frozen=True, kw_only=True):
    """The newest list of all leaders this node has answered. It answers and elects no node that counts only older
    ones."""

    generation: int = 0
    digest: str = ""

    def admits(self, generation: int, digest: str) -> bool:
        same = generation == self.generation and self.digest in ("", digest)
        return generation > self.generation or same


def generation_of(stage: int) -> int:
    return (stage + 1) // 2


def list_of(config: ElectConfig) -> NodeList:
    """Equal for equal lists, in any order of the nodes."""
    nodes = sorted(f"{n.id} {n.control} {n.server} {n.priority}" for n in config.nodes)
    words = [*nodes, config.initial_primary, str(config.min_replicas_to_write)]
    return NodeList(nodes=config.nodes, digest=digest(n.id for n in config.nodes), words=digest(words))


def digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(words)).encode()).hexdigest()[:DIGEST_CHARS]


def unknown(config: ElectConfig) -> str:
    """What a node without a record sends in HELLO."""
    return f"?:{list_of(config).words}"


def first(config: ElectConfig) -> Lists:
    return Lists(stage=0, counted=(list_of(config),))


def applied(lists: Lists, config: ElectConfig) -> ElectConfig:
    """The config with all nodes that are counted."""
    return replace(config, nodes=lists.nodes)


def settled(lists: Lists) -> Lists:
    """The change is over: the newest list counts alone."""
    return Lists(stage=2 * lists.generation, counted=(lists.newest,))


def undone(lists: Lists) -> Lists:
    """The change is taken back: the old list counts alone."""
    return Lists(stage=lists.stage - 1, counted=lists.counted[:1])


def at_start(known: Lists | None, floor: ListFloor, config: ElectConfig) -> Lists:
    """The lists that a node counts, given those of its record and those of its file."""
    wanted = list_of(config)
    if known is None:
        return first(config)
    if wanted.ids == known.newest.ids:
        return same_nodes(known, wanted)
    if not known.is_joint:
        return begun(known, floor, wanted)
    if wanted.ids != known.counted[0].ids:
        raise ConfigError(
            f"nodes: the change from {named(known.counted[0])} to {named(known.newest)} is not finished here; one at a "
            f"time: start this node with one of these two lists first{RECORD_TOO_OLD}"
        )
    if floor.generation >= known.generation:
        raise ConfigError(
            f"nodes: the change to {named(known.newest)} has taken effect and cannot be taken back: start this node "
            f"with that list, and change it again when `epoxy elect status` shows that the change is over"
        )
    return undone(known)


def same_nodes(known: Lists, wanted: NodeList) -> Lists:
    """Addresses and priorities may differ, if all nodes change them at once: HELLO compares them."""
    return Lists(stage=known.stage, counted=(*known.counted[:-1], wanted))


def begun(known: Lists, floor: ListFloor, wanted: NodeList) -> Lists:
    """A change begins. The nodes that stay must keep their settings, and be enough to keep what was promised."""
    before = known.newest
    if not floor.admits(known.generation + 1, wanted.digest):
        raise ConfigError(
            f"nodes: the cluster has already gone from {named(before)} to another list than {named(wanted)}: start "
            f"this node with the file of the others"
        )
    staying = before.ids & wanted.ids
    if len(staying) < before.quorum and len(before.ids - wanted.ids) > 1:
        raise ConfigError(
            f"nodes: of {named(before)} only {', '.join(sorted(staying))} would stay; keep a majority of the old list "
            f"({before.quorum}), let that take effect, and replace the others then{RECORD_TOO_OLD}"
        )
    here = {node.id: node for node in wanted.nodes}
    moved = sorted(node.id for node in before.nodes if node.id in staying and here[node.id] != node)
    if moved:
        raise ConfigError(
            f"nodes: {', '.join(moved)} would change address or priority together with the list; one at a time: change "
            f"the list by a rolling restart, and the rest with all agents stopped"
        )
    return Lists(stage=known.stage + 1, counted=(before, wanted))


def named(nodes: NodeList) -> str:
    return f"({', '.join(sorted(nodes.ids))})"


def compatible(mine: str, theirs: str) -> bool:
    """Compares the `lists` of two HELLOs: both have the same file, or count a list in common and no two different lists
    of one generation. A node without a record (?) knows its file but not its generation; a node that was away while
    lists changed is sent the new ones later."""
    ours, others = (dict(word.partition(":")[::2] for word in words.split(",")) for words in (mine, theirs))
    if mine.rpartition(":")[2] == theirs.rpartition(":")[2]:
        return True
    if "?" in ours or "?" in others:
        return not set(ours.values()).isdisjoint(others.values())
    common = ours.keys() & others.keys()
    return bool(common) and all(ours[generation] == others[generation] for generation in common)
