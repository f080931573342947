"""The JSON records of actors, and of the workers that host them."""

from typing import Annotated, Literal

from msgspec import UNSET, Struct, UnsetType

from epoxy.model.actors import MAX_INPUT_BYTES, MAX_NAME_BYTES, ActorState
from epoxy.model.api import DEFAULT, ActorId, Count, Name, Version, documented

NamePart = Annotated[str, documented(maxLength=MAX_NAME_BYTES)]
"""The beginning of a name, or a whole one."""

UnixMs = Annotated[int, documented("Milliseconds since 1970.", minimum=0)]

MoveKind = Literal["home", "started", "asleep", "failed", "ended", "left", "destroyed"]


class ActorOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    key: Name
    namespace: Name = DEFAULT
    pool: Name = DEFAULT
    input: Annotated[str, documented("What the actor is given to begin with.", maxLength=MAX_INPUT_BYTES)] = ""
    mode: Literal["get_or_create", "create"] = "get_or_create"


class ActorInfo(Struct, frozen=True, kw_only=True):
    """`datacenter` is the actor's home, the `epoch`th after the first; `envoy` is the worker it runs on, if it does.
    `created`: by this very request."""

    id: ActorId
    namespace: str
    name: str
    key: str
    pool: str
    state: Annotated[str, documented(enum=[state.value for state in ActorState])]
    datacenter: str
    envoy: str | None
    generation: Count
    create_ts: Count
    epoch: Count = 0
    created: bool = False


class ActorPage(Struct, frozen=True, kw_only=True):
    """`next` is what `after` takes for the next page; null: this was the last."""

    actors: list[ActorInfo]
    next: str | None


class EnvoyInfo(Struct, frozen=True, kw_only=True):
    """`places` on the ring, 0 while it drains; with ring=true some of them, as parts of a turn."""

    namespace: str
    pool: str
    key: str
    version: int
    slots: int
    capacity: int
    weight: int
    last_ping_ts: int
    last_rtt_ms: int
    connected: bool
    draining: bool
    places: Count = 0
    ring: list[float] | UnsetType = UNSET


class EnvoyPage(Struct, frozen=True, kw_only=True):
    envoys: list[EnvoyInfo]


class Drained(Struct, frozen=True, kw_only=True):
    envoy: str
    draining: bool


# One actor, and the pools, for people who look


class ActorMove(Struct, frozen=True, kw_only=True):
    """What happened to an actor, as the node that answers saw it: `home`, it became the actor's home; `started` on a
    worker; `asleep`, `failed` or `ended` there; `left` for another datacenter; `destroyed`."""

    at_ms: UnixMs
    kind: MoveKind
    epoch: Count
    generation: Count
    worker: str | None


class ActorRecord(Struct, frozen=True, kw_only=True):
    """One actor. `first_home`: the datacenter that made it. `here`: the node that answers is in its home. `since_ms`:
    when it began to run, null while it does not; `alarm_ms`: when it is woken, null: never. `failures` of its code in a
    row; the next start is not before `not_before_ms`. `saved`: it may have a state; `local`: which stays in its home.
    `state_version` and `state_bytes`: of the state as this replica knows it, null: not known here. `moves`: the oldest
    first, what this process of `seen_by` saw of it; other datacenters saw others."""

    actor: ActorInfo
    first_home: str
    here: bool
    since_ms: UnixMs | None
    alarm_ms: UnixMs | None
    failures: Count
    not_before_ms: UnixMs | None
    saved: bool
    local: bool
    state_version: Version | None
    state_bytes: Count | None
    moves: list[ActorMove]
    seen_by: str


class PoolName(Struct, frozen=True, kw_only=True):
    namespace: str
    pool: str


class HomelessActor(Struct, frozen=True, kw_only=True):
    """`datacenter`: its last home, which is gone."""

    namespace: str
    name: str
    key: str
    pool: str
    datacenter: str


class HomelessPage(Struct, frozen=True, kw_only=True):
    """`count` is of all; `actors` are the first of them."""

    count: Count
    actors: list[HomelessActor]


class PoolInfo(Struct, frozen=True, kw_only=True):
    """`workers`: connected to this node, or gone for less time than they are waited for."""

    namespace: str
    pool: str
    workers: Count


class ActorPlace(Struct, frozen=True, kw_only=True):
    """A datacenter, and the pools it has workers of, as its lease says. `hosts`: it holds that lease, as far as is
    known here; without it, it hosts no actors."""

    datacenter: str
    here: bool
    hosts: bool
    pools: list[PoolName]


class PoolPage(Struct, frozen=True, kw_only=True):
    """`pools`: of this datacenter."""

    datacenter: str
    pools: list[PoolInfo]
    datacenters: list[ActorPlace]
