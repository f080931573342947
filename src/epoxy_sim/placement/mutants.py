"""Planted faults of placement and actors: each takes out one rule, and a judge must notice."""

from epoxy.actors import directory
from epoxy.actors.calls import Calls
from epoxy.actors.hosting import Hosting
from epoxy.actors.reservation import Reservations
from epoxy.actors.service import ActorService
from epoxy.client.envoy_protocol import EnvoyProtocol
from epoxy.client.hosted import Request
from epoxy.protocol.placement import envoys, rows
from epoxy.protocol.placement.expiry import Lease, LostTimeouts
from epoxy.protocol.placement.service import Placement
from epoxy_sim.patching import Patch, mutant
from epoxy_sim.placement import mutations

ALL = (
    mutant("rows-stay", "an expiry leaves the ring as it is", Patch(envoys, "withdraw", mutations.withdraw_from_view)),
    mutant("surplus-stays", "places beyond the fourth are left", Patch(envoys, "withdraw", mutations.withdraw_four)),
    mutant(
        "expire-unseeing", "a ping in time is overlooked", Patch(envoys, "expire", mutations.expire_unseeing), since=220
    ),
    mutant(
        "no-fence", "an envoy without answers goes on", Patch(EnvoyProtocol, "_is_cut_off", mutations.never), since=200
    ),
    mutant("no-reservation", "a name is taken without asking", Patch(Reservations, "take", mutations.take_alone)),
    mutant(
        "everybody-hosts", "the asked node hosts the actor", Patch(ActorService, "_at_owner", mutations.answer_here)
    ),
    mutant("same-id", "a destroyed actor's id is used again", Patch(directory, "ensure", mutations.ensure_same_id)),
    mutant("answer-at-once", "an answer before it is durable", Patch(Hosting, "ensure", mutations.answer_at_once)),
    mutant("slot-kept", "an actor that leaves keeps its slot", Patch(directory, "leave", mutations.leave_slot)),
    mutant("slot-twice", "an actor that starts is counted again", Patch(directory, "started", mutations.count_again)),
    mutant("moved-at-once", "an actor moves before it has stopped", Patch(Hosting, "_empty", mutations.empty_at_once)),
    mutant("failed-is-over", "an actor that fails is gone", Patch(Hosting, "stopped", mutations.ends_for_good)),
    mutant("lost-forgotten", "a lost envoy's actors are not moved", Patch(directory, "mark_lost", mutations.nothing)),
    mutant("nobody-waits", "an actor without envoy stays so", Patch(Hosting, "_place", mutations.nothing)),
    mutant("not-told-again", "a reconnected envoy gets no orders", Patch(Hosting, "_settle", mutations.nothing)),
    mutant("no-sweep", "only envoys passed over are expired", Patch(Placement, "_sweep", mutations.nothing)),
    mutant("ping-when-quiet", "a busy worker does not ping", Patch(EnvoyProtocol, "_say", mutations.ping_when_quiet)),
    mutant("no-lost-timeout", "silence is left to the sweep", Patch(LostTimeouts, "heard", mutations.nothing)),
    mutant("lease-kept", "a restart waits for its own lease", Patch(Lease, "_may_take", mutations.wait_for_oneself)),
    mutant("wall-clock", "time goes back with the wall clock", Patch(rows, "latest_time", mutations.no_time)),
    mutant("namespaces-share", "namespaces starve each other", Patch(Hosting, "_place", mutations.place_by_name)),
    mutant("forgiven-at-start", "back-off never grows", Patch(directory, "started", mutations.forgive)),
    mutant("successor-at-once", "the next of a name does not wait", Patch(directory, "must_wait", mutations.never)),
    mutant(
        "start-beside",
        "a generation starts over another",
        Patch(EnvoyProtocol, "_start", mutations.start_beside),
        since=630,
    ),
    mutant(
        "goodbye-first",
        "a worker leaves its actors behind",
        Patch(EnvoyProtocol, "_leave", mutations.goodbye_first),
        since=310,
    ),
    mutant("any-process", "a key serves two processes", Patch(envoys, "holder_of", mutations.nothing)),
    mutant("lost-is-definite", "what may have run is denied", Patch(Calls, "lose", mutations.lose_definitely)),
    mutant("failed-is-refused", "what failed counts as not seen", Patch(Request, "fail", mutations.refuse_what_ran)),
)

MUTANTS = {each.name: each for each in ALL}
