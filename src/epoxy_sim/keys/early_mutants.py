"""Planted faults of Accepts that leave before the own vote is durable, and of starts that have forgotten votes."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from epoxy.model.cluster import ClusterConfig
from epoxy.node.keys import urgency
from epoxy.node.keys.driver import Driver
from epoxy.node.members import early_accepts
from epoxy.node.members.early_accepts import EarlyAccepts
from epoxy.protocol.keys.operations import Concluded, KeyOp
from epoxy_sim.keys import plain_mutants
from epoxy_sim.keys.mutants import KeysMutant
from epoxy_sim.patching import Mutants, always, nothing

rides = urgency.rides
done = EarlyAccepts._done

MUTANTS = Mutants(KeysMutant, plain_mutants.MUTANTS)
mutant = MUTANTS.mutant

mutant(Driver, "set_forgetful", "forgetful-fast", "a start that forgot votes takes the fast round")(nothing)


@mutant(EarlyAccepts, "_done", "one-answer-clears", "a start that forgot votes asks one of the others")
def one_is_enough(early: EarlyAccepts, peer: int) -> None:
    early._answered.update(early._replica.config.voters)
    done(early, peer)


@mutant(EarlyAccepts, "_ask", "cleared-unasked", "a start that forgot votes asks none of the others")
def ask_none(early: EarlyAccepts, peer: int, after: bytes | None) -> None:
    early._driver.clock.call_later(0, lambda: early._done(peer))


mutant(
    EarlyAccepts, "_forgo", "instance-not-forgone", "nothing is promised where others hold forgotten votes", since=3_000
)(always)


@mutant(early_accepts, "may_be_early", "early-with-five", "Accepts leave early whatever the number of voters")
def with_any_number(config: ClusterConfig, me: int) -> bool:
    return not config.is_joint and me in config.voters


@mutant(urgency, "rides", "commit-rides", "a commit is told before it is durable, as the vote is")
def commits_ride(op: KeyOp, result: object, *, early: bool) -> bool:
    return rides(op, result, early=early) or (early and isinstance(result, Concluded))
