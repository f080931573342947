"""Plans of transactions in which a disk is not what it was: those of single keys, with other clients."""

from random import Random

from epoxy.model.transactions import Compare, Put, Txn
from epoxy_sim.keys.plans import disk_copies
from epoxy_sim.txn.plan import TxnClientPlan, TxnPlan, TxnStep

EVERY, WHICH = 26, 16
"""So many seeds have one such plan: those that no other kind of plan, and no known fault, depends on."""


def has_disk_copies(seed: int) -> bool:
    return seed % EVERY == WHICH


def txn_disk_copies(seed: int, n: int | None) -> TxnPlan:
    dice = Random(f"ordered-copies/{seed}")
    plan = disk_copies.disk_copies(seed, "per-key", n, None)
    return TxnPlan(
        seed=seed,
        n=plan.n,
        policy=plan.policy,
        timing=plan.timing,
        places=plan.places,
        weather=plan.weather,
        skew=plan.skew,
        faults_end_us=plan.faults_end_us,
        faults=plan.faults,
        strict_start=plan.strict_start,
        probes=True,
        recover_ms=plan.timing.round_timeout_ms * dice.choice((0.5, 1.0, 2.0)),
        catchup_ms=plan.timing.round_timeout_ms * dice.choice((0.5, 5.0, 50.0)),
        clients=tuple(
            TxnClientPlan(
                home=client.home,
                copy=client.copy,
                steps=tuple(TxnStep(at_us=step.at_us, txn=taking(step.key, step.value)) for step in client.steps),
            )
            for client in plan.clients
        ),
    )


def taking(key: int, value: int) -> Txn:
    """Take a name if it is free."""
    name = b"key-%d" % key
    return Txn(compares=(Compare(key=name, absent=True),), then=(Put(key=name, value=b"%d" % value),), reads=(name,))
