"""`epoxy serve`: the process of a node from its start to its end, whatever it keeps its rows in."""

import asyncio
import gc
import os
import sys
from collections.abc import Callable

from epoxy.model.errors import EpoxyError, StoreUnavailable
from epoxy.node.process import descriptors, signals
from epoxy.node.process.config import Settings
from epoxy.node.process.logs import LOGGER
from epoxy.node.process.parent_death import die_with_parent
from epoxy.server.child_processes import ChildPlace, place_of
from epoxy.server.datacenter import DatacenterSession, begin_anew
from epoxy.server.listeners import HandedOn
from epoxy.server.node_process import check
from epoxy.server.process import Process
from epoxy.server.process_sessions import open_child, open_host
from epoxy.server.scrubbing import EndsSoon
from epoxy.server.shard_process import ShardProcess
from epoxy.server.shared_storage import database_of
from epoxy.store.local.database_messages import Order

SWITCH_INTERVAL_S = 0.0005
"""The log's thread must get the interpreter lock back quickly after each sync, or every commit waits for a busy
loop."""

END_S = 10.0
"""How long a process that cannot start waits until the disk has the reason."""

COLLECT_AFTER = 20_000, 20, 50
"""Thresholds of the garbage collector. With the default of 700 it looks at the thousands of objects of the writes under
way again and again, for 7 % of a busy node's CPU time, and finds nothing: the path of a write makes no cycles."""

LOOK_S = 0.1
"""Between two looks for the first configuration in the database, which the gateway writes."""

LEAVE_S = 20.0
"""For a node to hand its shards over, clients' requests under way included: those end within ten seconds. Supervisors
give thirty before they kill."""

PROMOTION_S = 0.5
"""For the requests of a node that becomes the gateway: without one, most of them wait in vain."""

ROOM_S = 5.0
"""For them while the gateway before is there, until this node is its heir: they end within a few round trips."""


class Signals:
    """Of the process: `over` after the first that ends it, `hurry` after the second. SIGHUP calls `reload`."""

    def __init__(self) -> None:
        self.over, self.hurry = asyncio.Event(), asyncio.Event()
        self.reload: Callable[[], None] = do_nothing

    def end(self) -> None:
        (self.hurry if self.over.is_set() else self.over).set()

    def ordered(self, order: Order) -> None:
        """By the first process of a node, which passes on what it is sent."""
        match order:
            case Order.END:
                self.over.set()
            case Order.HURRY:
                self.hurry.set()
            case Order.RELOAD:
                self.reload()


def do_nothing() -> None:
    pass


async def serve(settings: Settings) -> int:
    """Until a first signal, which stops the node in order; a second one ends the wait for clients. SIGHUP reads secrets
    and certificates again; before the node has started it does nothing."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    descriptors.raise_limit()
    given = Signals()
    with signals.handled(given.end, lambda: given.reload()):
        place = place_of(os.environ)
        if place is not None:
            await serve_child(settings, place, given)
        elif settings.node.processes > 1:
            await serve_first(settings, given)
        elif settings.store.driver == "postgres":
            await serve_shared(settings, given)
        else:
            await serve_alone(settings, given)
    return 0


async def serve_alone(settings: Settings, given: Signals) -> None:
    process = await make(lambda: Process(settings))
    await start(process, given)
    await given.over.wait()
    await process.stop(given.hurry)


async def make(process: Callable[[], Process]) -> Process:
    try:
        return process()
    except EndsSoon:
        await asyncio.sleep(END_S)
        raise


async def start(
    process: Process | ShardProcess,
    given: Signals,
    also: Callable[[], None] = do_nothing,
    handed_on: HandedOn | None = None,
) -> None:
    """`also`: what else SIGHUP is for. `handed_on`: the sockets of the process before, which became this one."""
    try:
        await process.start(handed_on)
    except EpoxyError:
        process.close()
        raise

    def reload() -> None:
        process.reloading.reload()
        also()

    given.reload = reload
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


async def serve_shared(settings: Settings, given: Signals) -> None:
    """One node of several. A database that goes away while the node starts, or becomes the gateway, is waited for as
    one that was not there before: in a new life, because a part of this one is made and a part is not."""
    check(settings)
    over = asyncio.ensure_future(given.over.wait())
    opening = asyncio.ensure_future(opened(settings))
    await asyncio.wait((over, opening), return_when=asyncio.FIRST_COMPLETED)
    over.cancel()
    if not opening.done():
        opening.cancel()
        return
    try:
        await serve_session(settings, opening.result(), given)
    except StoreUnavailable as error:
        if given.over.is_set():
            raise
        begin_anew("the database went away during a start; this node begins anew", str(error))


async def serve_first(settings: Settings, given: Signals) -> None:
    """The first of the processes of one node, which starts the others."""
    check(settings)
    await serve_session(settings, await open_host(settings, given.hurry), given)


async def serve_child(settings: Settings, place: ChildPlace, given: Signals) -> None:
    """One that stands still would go on accepting clients beside the next life of its node."""
    die_with_parent()
    check(settings)
    settings, session = await open_child(settings, place, given.ordered)
    await serve_session(settings, session, given)


async def serve_session(settings: Settings, session: DatacenterSession, given: Signals) -> None:
    """A shard node that comes to own the system shard ends as such, and goes on as the gateway, with the shards it
    has. If it was asked to make room for that and the shard does not come, it goes on as it was."""
    over = asyncio.ensure_future(given.over.wait())
    process: Process | ShardProcess | None = None
    handed_on: HandedOn | None = None
    try:
        while not given.over.is_set():
            session.changed.clear()
            if session.has_system_shard and not isinstance(process, Process):
                if process is not None:
                    handed_on = handed_on or await make_room(process, PROMOTION_S)
                    await process.end()
                process = await make(lambda: Process(settings, session))
                await start(process, given, session.reload, handed_on)
                handed_on = None
            elif session.is_room_wanted and isinstance(process, ShardProcess):
                handed_on = handed_on or await make_room(process, ROOM_S)
                session.made_room()
            elif handed_on is not None and isinstance(process, ShardProcess) and not session.is_heir:
                await process.end()
                process = ShardProcess(settings, session)
                await start(process, given, session.reload, handed_on)
                handed_on = None
            elif process is None and session.can_follow():
                process = ShardProcess(settings, session)
                await start(process, given, session.reload)
            changed = asyncio.ensure_future(session.changed.wait())
            await asyncio.wait((over, changed), timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        await leave(session, process, given)
    finally:
        over.cancel()
        await session.close()


async def opened(settings: Settings) -> DatacenterSession:
    session = DatacenterSession(settings, await database_of(settings))
    await session.open()
    return session


async def make_room(process: ShardProcess, patience_s: float) -> HandedOn:
    LOGGER.info("this node becomes the gateway of its datacenter")
    hurry = asyncio.Event()
    timer = asyncio.get_running_loop().call_later(patience_s, hurry.set)
    handed_on = await process.make_room(hurry)
    timer.cancel()
    return handed_on


async def announced(session: DatacenterSession, hurry: asyncio.Event) -> int:
    """The session that is prepared to be the next gateway; 0: there is none, or it is not waited for any longer."""
    hurried, announcing = asyncio.ensure_future(hurry.wait()), asyncio.ensure_future(session.announce())
    await asyncio.wait((hurried, announcing), return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if announcing.done():
        return announcing.result()
    announcing.cancel()
    return 0


async def leave(session: DatacenterSession, process: Process | ShardProcess | None, given: Signals) -> None:
    """Hand the key shards over while clients are served, then stop serving, then give up the rest: the system shard to
    a node that is prepared for it. A database that is away is not waited for for ever: the others take the shards when
    the lease is over."""
    loop = asyncio.get_running_loop()

    async def stop(then: Callable[[int], None]) -> None:
        heir = await announced(session, given.hurry) if isinstance(process, Process) else 0
        if process is not None:
            await process.stop(given.hurry)
        then(heir)

    stopping: list[asyncio.Task[None]] = []
    session.ownership.farewell = lambda then: stopping.append(loop.create_task(stop(then)))
    leaving = [loop.create_task(given.hurry.wait()), loop.create_task(session.hand_all_over())]
    done, _ = await asyncio.wait(leaving, timeout=LEAVE_S, return_when=asyncio.FIRST_COMPLETED)
    if leaving[1] not in done:
        LOGGER.warning("not waiting for the database any longer: other nodes take the shards when the lease is over")
        given.hurry.set()
    for task in leaving:
        task.cancel()
    if stopping:
        await stopping[0]
    elif process is not None:
        await process.stop(given.hurry)
