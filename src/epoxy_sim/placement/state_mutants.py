"""Planted faults of states and homes."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from epoxy.actors import states
from epoxy.actors.alarms import Alarms
from epoxy.actors.calls import Calls
from epoxy.actors.datacenter_lease import DatacenterLeases, HomeLease
from epoxy.actors.hosting import Hosting
from epoxy.actors.messages import OwnerUnavailable, Verdict
from epoxy.actors.service import ActorService
from epoxy.actors.states import LoadedState, Saving, States, StateSave, Wanted
from epoxy.actors.streams import ActorCall
from epoxy.client.hosted.answers import KeptAnswers
from epoxy.client.hosted.gate import OutputGate
from epoxy.client.hosted.state import State
from epoxy.model import homes
from epoxy.model.actors import ActorEntry
from epoxy.model.envoy_messages import Response
from epoxy.model.exchanges import Reset
from epoxy.model.homes import DatacenterLease, state_key
from epoxy.model.writes import Write
from epoxy_sim.patching import nothing
from epoxy_sim.placement import mutants

right_write_of = states.write_of

MUTANTS = mutants.MUTANTS
mutant = MUTANTS.mutant


@mutant(States, "load", "no-raise", "a generation starts without raising the version")
def load_here(
    self: States, actor: ActorEntry, *, clean: bool, wanted: Wanted, loaded: Callable[[LoadedState], None]
) -> None:
    """What this replica has counts as the newest."""
    del clean, wanted
    here = self._keys(actor.local).peek(state_key(actor.id))
    state = states.state_of(here.committed) if here is not None and here.committed is not None else None
    self._loaded(actor.id, state or LoadedState(), loaded)


@mutant(states, "write_of", "save-over", "a save does not compare the version")
def write_over(save: StateSave) -> Write:
    """And is taken from any generation: each of the two rules is enough while no datacenter loses its home."""
    return replace(right_write_of(save), if_version=None)


@MUTANTS.also("save-over", States, "_try")
def try_for_any(self: States, saving: Saving) -> None:
    """Whether its generation is in force or not."""
    self._keys(saving.save.local).write(states.write_of(saving.save), partial(self._tried, saving))


@mutant(OutputGate, "release", "reply-at-once", "an answer does not wait for its state")
def release_at_once(self: OutputGate, then: Callable[[], None], size: int = 0) -> None:
    del size
    if not self.closed:
        then()


mutant(State, "undo", "not-undone", "a turn that failed leaves its changes")(nothing)
mutant(KeptAnswers, "get", "no-kept-answers", "what is asked again is done again")(nothing)


@mutant(HomeLease, "held", "lease-for-ever", "a lease is not looked at before serving")
def held_for_ever(self: HomeLease) -> bytes | None:
    return self._incarnation if self._sent_ms is not None else None


mutant(Hosting, "fenced", "not-fenced", "a datacenter whose lease is over goes on")(nothing)


@mutant(DatacenterLeases, "ask", "local-lease", "a take-over by what one replica holds")
def ask_here(self: DatacenterLeases, label: int, told: Callable[[DatacenterLease | None, bool], None]) -> None:
    told(self.known(label), True)


@mutant(homes, "generation_of", "no-epoch", "generations begin anew with each home")
def count_alone(epoch: int, count: int) -> int:
    del epoch
    return count


@mutant(Hosting, "at_home", "not-re-homed", "actors of a lease before are served")
def any_lease(self: Hosting, actor: ActorEntry) -> bool:
    del actor
    return self.lease() is not None


@mutant(ActorService, "_bury", "not-buried", "the record does not say that it is destroyed")
def leave_record(
    self: ActorService, gone: ActorEntry, done: Callable[[], None], failed: Callable[[Verdict], None]
) -> None:
    del self, gone, failed
    done()


@mutant(Calls, "_given_back", "refused-dropped", "what a worker gives back is not given again")
def drop(self: Calls, call: ActorCall, refusal: Response | Reset) -> None:
    del refusal
    call.envoy = None
    self._end(call, OwnerUnavailable(reason="refused"))


mutant(Alarms, "_look", "alarm-lost", "the index of alarms is not looked at")(nothing)
