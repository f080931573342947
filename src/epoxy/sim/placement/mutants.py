"""Planted faults of placement and actors: each takes one rule out, and a judge must notice."""

from epoxy.actors import directory
from epoxy.actors.calls import Calls
from epoxy.actors.hosting import Hosting
from epoxy.actors.reservation import Reservations
from epoxy.actors.service import Actors
from epoxy.client.envoy_protocol import EnvoyProtocol
from epoxy.client.hosted import Request
from epoxy.placement import envoys, rows
from epoxy.placement.expiry import Lease, LostTimeouts
from epoxy.placement.service import Placement
from epoxy.sim.patching import Patch, mutant
from epoxy.sim.placement import broken

ALL = (
    mutant("rows-stay", "an expiry leaves the ring as it is", Patch(envoys, "withdraw", broken.withdraw_from_view)),
    mutant("surplus-stays", "places beyond the fourth are left", Patch(envoys, "withdraw", broken.withdraw_four)),
    mutant(
        "expire-unseeing", "a ping in time is overlooked", Patch(envoys, "expire", broken.expire_unseeing), since=220
    ),
    mutant("no-fence", "an envoy nobody answers goes on", Patch(EnvoyProtocol, "_is_cut_off", broken.never), since=200),
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
    mutant("ping-when-quiet", "a busy worker does not ping", Patch(EnvoyProtocol, "_say", broken.ping_when_quiet)),
    mutant("no-lost-timeout", "silence is left to the sweep", Patch(LostTimeouts, "heard", broken.nothing)),
    mutant("lease-kept", "a restart waits for its own lease", Patch(Lease, "_may_take", broken.wait_for_oneself)),
    mutant("wall-clock", "time goes back with the wall clock", Patch(rows, "latest_time", broken.no_time)),
    mutant("namespaces-share", "namespaces starve each other", Patch(Hosting, "_place", broken.place_by_name)),
    mutant("forgiven-at-start", "back-off never grows", Patch(directory, "started", broken.forgive)),
    mutant("successor-at-once", "the next of a name does not wait", Patch(directory, "must_wait", broken.never)),
    mutant(
        "start-beside",
        "a generation starts over another",
        Patch(EnvoyProtocol, "_start", broken.start_beside),
        since=630,
    ),
    mutant(
        "goodbye-first",
        "a worker leaves its actors behind",
        Patch(EnvoyProtocol, "_leave", broken.goodbye_first),
        since=310,
    ),
    mutant("any-process", "a key serves two processes", Patch(envoys, "holder_of", broken.nothing)),
    mutant("lost-is-definite", "what may have run is denied", Patch(Calls, "lose", broken.lose_definitely)),
    mutant("failed-is-refused", "what failed counts as not seen", Patch(Request, "fail", broken.refuse_what_ran)),
)

MUTANTS = {each.name: each for each in ALL}
