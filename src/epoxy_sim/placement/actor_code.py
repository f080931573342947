"""The code of simulated actors, as users write it: a class, or a function. They keep a list of marks."""

import asyncio
from typing import TYPE_CHECKING, assert_never

from epoxy.client.hosted import Actor, ActorCode, Request
from epoxy.model.envoy_messages import Start
from epoxy_sim.placement.plan import CleanUp
from epoxy_sim.placement.workload import ActorDoes, ActorReport, ActorTask, Form, decode_task, encode, form_of

if TYPE_CHECKING:
    from epoxy_sim.placement.envoy import SimEnvoy

SLOWEST_STOP_S = 0.1
"""The slowest clean-up of an actor. Shorter than the time that the fence leaves for it."""

SLOW_CLEAN_UP = 3
"""In runs with slow clean-up, cancelled code takes up to this many thresholds to end."""

CLEAN_UP_SHARE = 0.23
"""Of the time after which a worker without answers stops its actors: a fence leaves a quarter of it for stopping, of
which clocks of different speed take some."""

SLOWEST_ANSWER_S = 0.005
LONG_S = 7.0
"""For a turn that is under way whenever a lease of five seconds ends, if it is long enough by chance."""

MARKS, ALARM = "marks", "alarm"
"""Fields of the state."""


class ActorFailed(Exception):
    """On purpose."""


class SimCode:
    """One generation of an actor in one process. It tells the judge when it runs."""

    def __init__(self, envoy: "SimEnvoy", start: Start) -> None:
        self.start = start
        self._envoy = envoy
        self._judge = envoy.simulation.judge
        self._dice = envoy.dice
        self._is_over = False
        self._judge.runs(start, envoy)

    def registered(self) -> ActorCode:
        form, sleep_after = form_of(self.start.name), self._envoy.simulation.plan.sleep_after_s
        if form is Form.FUNCTION:
            return ActorCode(self.run)
        of_this = type("OfThisGeneration", (ListActor,), {"sim": self})
        return ActorCode(of_this, sleep_after=sleep_after or None, local=form is Form.LOCAL)

    async def run(self, actor: Actor) -> None:
        """The function form."""
        try:
            await self.begin()
            async for request in actor:
                request.respond(await self.serve(actor, request))
            await self.work(SLOWEST_STOP_S)
        except asyncio.CancelledError:
            await self.clean_up()
            raise

    async def begin(self) -> None:
        if self._envoy.simulation.code_fails:
            await self.work(SLOWEST_ANSWER_S)
            self._fail()

    async def serve(self, actor: Actor, request: Request) -> bytes:
        self._step()
        task = decode_task(request.body)
        if task.does is ActorDoes.FAIL:
            self._fail()
        self._judge.ran(task.word)
        await self.work(SLOWEST_ANSWER_S if task.does is not ActorDoes.LONG else LONG_S)
        marks = list(actor.state.get(MARKS, []))
        if task.does not in (ActorDoes.NOTHING, ActorDoes.READ, ActorDoes.LONG):
            marks.append(task.mark)
            actor.state[MARKS] = marks
            await self.work(SLOWEST_ANSWER_S)
        self._carry_out(actor, task)
        form, seen = form_of(actor.name), () if task.does is ActorDoes.NOTHING else tuple(marks)
        return encode(ActorReport(form=form, actor_id=actor.id, generation=actor.generation, marks=seen))

    def _carry_out(self, actor: Actor, task: ActorTask) -> None:
        match task.does:
            case ActorDoes.BREAK:
                raise ActorFailed
            case ActorDoes.SLEEP:
                actor.sleep()
            case ActorDoes.ALARM if isinstance(actor, ListActor):
                at_ms = self._envoy.wall_ms() + task.in_ms
                actor.state[ALARM] = at_ms
                actor.alarm(at_ms / 1000)
            case _:
                pass

    async def ring(self, actor: Actor) -> None:
        self._step()
        at_ms = actor.state.get(ALARM, 0)
        self._envoy.simulation.states.rang(actor.id, at_ms, self._envoy.wall_ms())
        await self.work(SLOWEST_ANSWER_S)
        actor.state[ALARM] = 0

    async def work(self, slowest_s: float) -> None:
        await asyncio.sleep(slowest_s * self._dice.random())
        self._step()

    async def clean_up(self) -> None:
        """That is interrupted by nothing but a second cancellation."""
        if not self._envoy.alive:
            return
        self._judge.interrupted += 1
        clean_up, welcome = self._envoy.simulation.plan.clean_up, self._envoy.protocol.welcome
        assert welcome is not None, "it was told to start"
        match clean_up:
            case CleanUp.SHORT:
                await self.work(SLOWEST_STOP_S)
            case CleanUp.FULL:
                await self.work(CLEAN_UP_SHARE * welcome.lost_after_ms / 1000)
            case CleanUp.SLOW:
                await self.work(SLOW_CLEAN_UP * self._envoy.simulation.plan.threshold_ms / 1000)
            case CleanUp.ENDLESS:
                await asyncio.get_running_loop().create_future()
            case _:
                assert_never(clean_up)

    def _fail(self) -> None:
        self._judge.failures[self.start.actor_id] += 1
        raise ActorFailed

    def _step(self) -> None:
        """Between two points at which it waits, code runs on, whatever its process was told meanwhile."""
        self._judge.step(self.start, self._envoy)

    def over(self) -> None:
        """The code has ended, or its process."""
        if not self._is_over:
            self._is_over = True
            self._envoy.codes.remove(self)
            self._judge.stops(self.start)


class ListActor(Actor):
    """The class form."""

    sim: SimCode

    async def on_start(self) -> None:
        await self.sim.begin()

    async def on_request(self, request: Request) -> bytes:
        try:
            return await self.sim.serve(self, request)
        except asyncio.CancelledError:
            await self.sim.clean_up()
            raise

    async def on_alarm(self) -> None:
        await self.sim.ring(self)

    async def on_stop(self) -> None:
        await self.sim.work(SLOWEST_STOP_S)
