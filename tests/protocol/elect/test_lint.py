"""What a config may not say, and what it should not."""

import pytest
from msgspec.structs import replace

from epoxy.model.address import Address
from epoxy.protocol.elect.config import MAX_NODES, ElectConfig, ElectNode, ElectTiming, fingerprint
from epoxy.protocol.elect.lint import lint
from epoxy.protocol.elect.lists import list_of
from tests.protocol.elect.bench import config_of

NAMES = "abcdefghijklmnopqrst"


def sound(names: str = "abc", **settings: object) -> ElectConfig:
    return replace(config_of(names), timing=ElectTiming(), **settings)


def node(name: str, **settings: object) -> ElectNode:
    return replace(ElectNode(id=name, control=Address(name, 1), server=Address(name, 2)), **settings)


def with_last(**settings: object) -> ElectConfig:
    return sound(nodes=(*sound().nodes[:2], node("c", **settings)))


def timed(**settings: int) -> ElectConfig:
    return replace(sound(), timing=replace(ElectTiming(), **settings))


def test_a_sound_config_has_no_findings() -> None:
    assert lint(sound()) == []
    assert lint(sound("abcde", min_replicas_to_write=2)) == []


@pytest.mark.parametrize(
    ("config", "setting", "words"),
    [
        (with_last(id="b"), "nodes.id", "'b' is there 2 times"),
        (with_last(id="zürich"), "nodes.id", "printable ASCII"),
        (with_last(id="a b"), "nodes.id", "without spaces"),
        (with_last(id=""), "nodes.id", "printable ASCII"),
        (with_last(id="x" * 33), "nodes.id", "33 bytes; at most 32"),
        (with_last(control=Address("b", 1)), "nodes.control", "b:1 is there 2 times"),
        (with_last(server=Address("b", 2)), "nodes.server", "b:2 is there 2 times"),
        (with_last(priority=-1), "nodes.priority", "from 0"),
        (sound(cluster="my cluster"), "cluster.name", "without spaces"),
        (sound(initial_primary="z"), "cluster.initial_primary", "not one of the nodes"),
        (with_last(priority=0), "", ""),
        (sound(NAMES[: MAX_NODES + 1]), "nodes", "from 1 to 15"),
        (timed(lease_ms=400), "timing.lease_ms", "more than two hb_interval_ms"),
        (timed(lease_ms=4_900), "timing.lease_ms", "below 4761"),
        (timed(down_after_ms=3_000), "timing.lease_ms", "before down_after_ms"),
        (timed(election_timeout_ms=200), "timing.election_timeout_ms", "longer than hb_interval_ms"),
        (timed(election_backoff_min_ms=9_000), "timing.election_backoff_ms", "ends before"),
        (timed(hb_interval_ms=0), "timing.hb_interval_ms", "at least 1"),
        (sound(min_replicas_to_write=3), "cluster.min_replicas_to_write", "from 0 to 2"),
    ],
)
def test_what_is_refused_names_its_setting(config: ElectConfig, setting: str, words: str) -> None:
    refused = [finding for finding in lint(config) if finding.fatal]
    assert [finding.setting for finding in refused] == ([setting] if setting else [])
    assert all(words in finding.text for finding in refused)


def test_a_first_primary_that_never_leads_is_refused() -> None:
    config = sound(nodes=(node("a", priority=0), node("b"), node("c")))
    assert [str(finding) for finding in lint(config)] == ["cluster.initial_primary: 'a' has priority 0 and never leads"]


@pytest.mark.parametrize(
    ("config", "setting", "words"),
    [
        (sound("a"), "nodes", "N=1 has no fault tolerance"),
        (sound("ab"), "nodes", "N=2 has no fault tolerance"),
        (sound("abcd"), "nodes", "no more failures than N=3"),
        (sound("abcde", min_replicas_to_write=1), "cluster.min_replicas_to_write", "too few"),
        (
            sound(nodes=(node("a"), node("b", priority=0), node("c", priority=0))),
            "nodes.priority",
            "no other node to fail over to",
        ),
    ],
)
def test_what_is_allowed_and_unwise_is_said(config: ElectConfig, setting: str, words: str) -> None:
    (finding,) = lint(config)
    assert (finding.fatal, finding.setting) == (False, setting)
    assert words in finding.text


def test_a_node_that_never_leads_does_not_make_a_write_safe() -> None:
    nodes = (*sound().nodes[:2], node("c", priority=0))
    (finding,) = lint(sound(nodes=nodes, min_replicas_to_write=1))
    assert finding.text.endswith(": 2")


def told(config: ElectConfig) -> tuple[str, str]:
    """What two nodes compare before they listen to each other."""
    return fingerprint(config), list_of(config).words


def test_the_fingerprint_ignores_the_order_of_nodes_and_nothing_else() -> None:
    config = sound()
    assert told(config) == told(sound(nodes=tuple(reversed(config.nodes))))
    others = [
        sound("abcd"),
        with_last(priority=5),
        with_last(server=Address("c", 9)),
        timed(lease_ms=3_000),
        sound(cluster="other"),
        sound(initial_primary="b"),
        sound(min_replicas_to_write=1),
    ]
    assert len({told(each) for each in [config, *others]}) == len(others) + 1
