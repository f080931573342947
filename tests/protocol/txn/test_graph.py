"""The order of execution, against the definition."""

from collections.abc import Mapping
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.instances import NOTHING, Deps, Instance, InstanceId, Phase
from epoxy.protocol.txn.graph import plan
from epoxy.protocol.txn.log import InstanceLog
from tests.protocol.txn.cluster import write

IDS = [InstanceId(replica, slot) for replica in (1, 2, 3) for slot in (1, 2, 3)]
Edges = Mapping[InstanceId, frozenset[InstanceId]]

edges = st.dictionaries(st.sampled_from(IDS), st.frozensets(st.sampled_from(IDS), max_size=4), min_size=1)


def log_of(graph: Edges) -> InstanceLog:
    log = InstanceLog()
    for instance_id, deps in graph.items():
        rest = Deps(also=tuple(sorted(deps - {instance_id})))
        log.put(Instance(id=instance_id, phase=Phase.COMMITTED, command=write(), deps=rest))
    return log


def reached(graph: Edges, start: InstanceId) -> set[InstanceId]:
    found, left = {start}, [start]
    while left:
        for each in graph.get(left.pop(), frozenset()) - found:
            found.add(each)
            left.append(each)
    return found


@given(edges, st.sampled_from(IDS))
def test_dependencies_first_groups_whole_and_in_the_order_of_ids(graph: Edges, root: InstanceId) -> None:
    log = log_of(graph)
    found = plan(log, root, {})
    executed: set[InstanceId] = set()
    for group in found.groups:
        assert group == sorted(group)
        for each in group:
            assert each in graph, "only what is decided"
            same = {other for other in reached(graph, each) if each in reached(graph, other)}
            assert same == set(group), "all that depend on each other, and no others"
            assert graph[each] - {each} <= executed | set(group)
        executed |= set(group)
    whole = reached(graph, root)
    assert (found.missing is None) == (whole <= set(graph))
    if found.missing is None:
        assert executed == whole
    else:
        assert found.missing in whole - set(graph)


@given(edges, st.sampled_from(IDS), st.sampled_from(IDS))
def test_those_who_were_held_up_wait_for_what_is_missing_and_are_not_asked_again(
    graph: Edges, first: InstanceId, second: InstanceId
) -> None:
    log = log_of(graph)
    found = plan(log, first, {})
    stuck = dict.fromkeys(found.held, found.missing or first)
    assert all(found.missing in reached(graph, each) for each in found.held)
    assert (found.missing is None) == (first in graph and not found.held)
    for each in (each for group in found.groups for each in group):
        log.mark_executed(each)
    blind, quick = plan(log, second, {}), plan(log, second, stuck)
    if not log.is_executed(second):
        assert (quick.missing is None) == (blind.missing is None)
        assert {tuple(group) for group in quick.groups} <= {tuple(group) for group in blind.groups} or blind.missing


@given(edges, st.randoms(use_true_random=False))
def test_every_replica_finds_the_same_order(graph: Edges, dice: Random) -> None:
    """Whatever it learned first: of two where one depends on the other, the same one comes first everywhere."""
    orders = []
    for _ in range(2):
        log, order = log_of(graph), list[InstanceId]()
        roots = sorted(graph)
        dice.shuffle(roots)
        for root in roots:
            for group in [] if log.is_executed(root) else plan(log, root, {}).groups:
                for each in group:
                    log.mark_executed(each)
                    order.append(each)
        orders.append(order)
    first, second = orders
    assert set(first) == set(second)
    for one in first:
        for other in graph[one] - {one}:
            if one in first and other in first:
                assert (first.index(one) < first.index(other)) == (second.index(one) < second.index(other))


def test_a_stretch_stands_for_all_its_slots() -> None:
    log = InstanceLog()
    last = InstanceId(2, 1)
    log.put(Instance(id=last, phase=Phase.COMMITTED, command=write(), deps=Deps(upto=(InstanceId(1, 3),))))
    assert plan(log, last, {}).missing == InstanceId(1, 3), "its end: what comes before it need not be looked at again"
    for slot in (1, 2, 3):
        log.put(Instance(id=InstanceId(1, slot), phase=Phase.COMMITTED, nop=slot == 2, command=write(), deps=NOTHING))
    assert plan(log, last, {}).groups == [[InstanceId(1, 3)], [InstanceId(1, 2)], [InstanceId(1, 1)], [last]]
    log.mark_executed(InstanceId(1, 2))
    assert plan(log, last, {}).groups == [[InstanceId(1, 3)], [InstanceId(1, 1)], [last]]


def test_long_chains_do_not_recurse() -> None:
    log = InstanceLog()
    for slot in range(1, 5001):
        deps = Deps(also=(InstanceId(1, slot - 1),)) if slot > 1 else NOTHING
        log.put(Instance(id=InstanceId(1, slot), phase=Phase.COMMITTED, command=write(), deps=deps))
    assert len(plan(log, InstanceId(1, 5000), {}).groups) == 5000
