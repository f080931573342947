"""Planted faults of placement and actors: each takes one rule out, and a judge must notice."""

from epoxy.actors import directory
from epoxy.actors.hosting import Hosting
from epoxy.actors.reservation import Reservations
from epoxy.actors.service import Actors
from epoxy.placement import envoys
from epoxy.placement.service import Placement
from epoxy.sim.patching import Patch, mutant
from epoxy.sim.placement import broken
from epoxy.sim.placement.envoy import SimEnvoy

ALL = (
    mutant("rows-stay", "an expiry leaves the ring as it is", Patch(envoys, "withdraw", broken.withdraw_from_view)),
    mutant("surplus-stays", "places beyond the fourth are left", Patch(envoys, "withdraw", broken.withdraw_four)),
    mutant("expire-unseeing", "a ping in time is overlooked", Patch(envoys, "expire", broken.expire_unseeing)),
    mutant("no-fence", "an envoy nobody answers goes on", Patch(SimEnvoy, "_is_cut_off", broken.never), since=300),
    mutant("no-reservation", "a name is taken without asking", Patch(Reservations, "take", broken.take_alone)),
    mutant("everybody-hosts", "whoever is asked hosts the actor", Patch(Actors, "_at_owner", broken.answer_here)),
    mutant("same-id", "a destroyed actor's id is used again", Patch(directory, "ensure", broken.ensure_same_id)),
    mutant("answer-at-once", "an answer before it is durable", Patch(Hosting, "ensure", broken.answer_at_once)),
    mutant("slot-kept", "who leaves keeps the slot", Patch(directory, "leave", broken.leave_slot)),
    mutant("slot-twice", "who starts is counted again", Patch(directory, "started", broken.count_again)),
    mutant("moved-at-once", "an actor moves before it has stopped", Patch(Hosting, "_empty", broken.empty_at_once)),
    mutant("failed-is-over", "an actor that fails is gone", Patch(Hosting, "stopped", broken.ends_for_good)),
    mutant("lost-forgotten", "nobody moves a lost envoy's actors", Patch(directory, "mark_lost", broken.nothing)),
    mutant("nobody-waits", "an actor without envoy stays so", Patch(Hosting, "_place", broken.nothing)),
    mutant("not-told-again", "a reconnected envoy is told nothing", Patch(Hosting, "_settle", broken.nothing)),
    mutant("no-sweep", "only those walked past are expired", Patch(Placement, "_sweep", broken.nothing)),
)

MUTANTS = {each.name: each for each in ALL}
