"""Runs without time: flows and replicas of production, and a scheduler that draws at every step what happens next.

A message arrives or is lost, in any order; a timer rings; a replica recovers an instance; a process crashes. With
virtual time unusual orders are rare, because timers are reasonable. Here they are as likely as others, so that recovery
is tried a hundred times as often. Disks are fast here, and nothing is forgotten; that a vote is durable, and may be
told to others, is an event like the arrival of a message.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import assert_never

from msgspec import Struct

from epoxy.model.ballot import NO_BALLOT
from epoxy.model.cluster import first_epoch
from epoxy.model.errors import InvariantViolation
from epoxy.model.instances import Command, InstanceId, OrderedAccept, OrderedCommit, OrderedRequest, OrderedVote
from epoxy.model.messages import Reply
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.transactions import Get, Put, Txn
from epoxy.node.txn.replica import OrderedReplica
from epoxy.protocol.effects import Also, Answer, Context, Event, Expired, Local, News, Next, Open, Pause, Tell
from epoxy.protocol.txn.coordinator import submit
from epoxy.protocol.txn.effects import Effect, Flow, Rescue, TxnTiming
from epoxy.protocol.txn.recovery import recover
from epoxy.protocol.txn.votes import vote_broadcast
from epoxy.store.memory import MemoryStore
from epoxy_sim.simulation import Report, Violation, failure_of
from epoxy_sim.trace_format import NAMES, say
from epoxy_sim.txn.judge import TxnJudge
from epoxy_sim.txn.plan import AnyPlan, WalkPlan

KEY = b"key"

LEAST_FOR_AN_OPENING = 5
"""Replicas. Among fewer, every voter knows of everything that matters."""

SIZES = (3, 3, 4, 5, 5, 5, 5, 5, 6, 7)


class FlowTask:
    """A flow at a replica."""

    def __init__(self, name: str, home: int, flow: "Flow[object]") -> None:
        self.name = name
        self.home = home
        self.flow = flow
        self.round = 0
        self.events: list[Event] = []
        self.is_waiting = False
        self.is_watching = False
        self.is_timed = False
        self.over = False


class Letter(Struct, frozen=True):
    """On its way: a request, or the reply to one."""

    sender: int
    to: int
    body: OrderedRequest | Reply
    task: FlowTask | None
    round: int
    flow: str
    is_reply: bool


class Scramble:
    def __init__(self, plan: WalkPlan) -> None:
        self.dice = Random(f"scramble/{plan.seed}")
        self.n = plan.n if plan.n is not None else self.dice.choice(SIZES)
        self.steps = plan.steps
        policy = QuorumPolicy.OPTIMAL if self.dice.random() < 0.9 else QuorumPolicy.FAST_PAXOS
        self.config = first_epoch(tuple(range(1, self.n + 1)), policy)
        self.judge = TxnJudge(range(1, self.n + 1))
        self.replicas = {i: self._replica(i) for i in range(1, self.n + 1)}
        self.letters: list[Letter] = []
        self.tasks: list[FlowTask] = []
        self.up = set(self.replicas)
        self.ids: list[InstanceId] = []
        self.sent = 0
        self.trace: list[str] = []
        self.commands = self.dice.randint(3, 5)
        self.patience = self.dice.choice((0.2, 0.4, 0.6))
        """Letters less urgent than this wait."""
        self.urgency: dict[tuple[str, type, int], float] = {}
        self.mute = self.dice.choice((0.0, 0.5, 1.0))
        """The share of Commits that are lost."""

    def _replica(self, i: int) -> OrderedReplica:
        replica = OrderedReplica(i, MemoryStore(), self.config)
        replica.on_change = partial(self.judge.held, i)
        replica.on_executed = lambda instance_id, _: self._executed(i, instance_id)
        return replica

    def _executed(self, i: int, instance_id: InstanceId) -> None:
        self.judge.executes(i, self.replicas[i].log.get(instance_id))
        self.judge.executed(i, instance_id)

    # The walk

    def play(self) -> None:
        try:
            if self.n >= LEAST_FOR_AN_OPENING and self.dice.random() < 0.6:
                self.dice.choice((self._slip_past, self._wait_for_each_other, self._vote_apart))()
            for _ in range(self.steps):
                self._step()
        except InvariantViolation as violation:
            raise Violation("agreement", str(violation)) from violation
        self.judge.sum_up()

    def _step(self) -> None:
        """Mostly the most urgent letter. Each kind of message of a flow to a receiver has an urgency of its own; below
        `patience` it waits until its urgency is drawn again (PCT: Burckhardt et al., ASPLOS 2010)."""
        ready = [letter for letter in self.letters if self._urgency(letter) > self.patience]
        if self.commands and self.dice.random() < 0.3 and (votes := [each for each in ready if is_recovered(each)]):
            self._come_between(votes)
            return
        if ready and self.dice.random() < 0.85:
            self._deliver(max(ready, key=self._urgency))
            return
        roll = self.dice.random()
        if roll < 0.3 and self.commands:
            self._submit()
        elif roll < 0.6 and self.ids:
            self._recover()
        elif roll < 0.7:
            self._crash()
        elif roll < 0.85:
            self._ring()
        elif self.letters:
            self.urgency[way_of(self.dice.choice(self.letters))] = self.dice.random()

    def _come_between(self, votes: list[Letter]) -> None:
        """A new command, just before a vote for a recovered one."""
        for letter in votes:
            self.urgency[way_of(letter)] = 0.0
        self._submit()

    def _urgency(self, letter: Letter) -> float:
        way = way_of(letter)
        if way not in self.urgency:
            self.urgency[way] = self.dice.random()
        return self.urgency[way]

    # Openings: how some walks begin

    def _slip_past(self) -> None:
        """One replica has heard of a command when its coordinator is gone. It is recovered, and just before the votes
        another command comes, and meets replicas that have only been asked about the first one."""
        dead, heard, *others = self.dice.sample(sorted(self.up), k=5)
        self._submit(dead)
        self._deliver_among({dead, heard})
        self._crash(dead)
        quorum = {heard, *others[:2]}
        self._recover(self.dice.choice(sorted(quorum)), self.ids[-1])
        self._deliver_among(quorum, before=is_recovered)
        self._submit(self.dice.choice(others))
        self._deliver_among(set(others), before=is_recovered)

    def _wait_for_each_other(self) -> None:
        """Two commands, one of them decided on the fast path by a coordinator that is gone. Both are recovered at the
        same time, one of them by a replica that has heard from its coordinator."""
        first, heard, second, shared, last = self.dice.sample(sorted(self.up), k=5)
        self._submit(first)
        self._deliver_among({first, heard})
        self._submit(second)
        self._deliver_among({second, shared, last})
        self._crash(second)
        one, other = self.ids[-2:]
        self._recover(first, one)
        self._deliver_among({first, heard, shared}, before=is_recovered)
        self._recover(last, other)
        self._deliver_among({heard, shared, last}, before=is_recovered)
        self._deliver_among({first, last}, before=is_recovered)

    def _vote_apart(self) -> None:
        """Two commands meet, so both need votes. One of them has two, its coordinator's among them; the others do not
        know of these, recover it, and one or all of them vote. Some hear of the others' votes; then it may be recovered
        once more, by one of the first two."""
        one, near, other, *rest = self.dice.sample(sorted(self.up), k=5)
        self._submit(one)
        instance_id = self.ids[-1]
        self._submit(other)
        self._deliver_among({one, near, other}, before=is_voting)
        self._deliver_among({one, near}, before=is_told)
        self._recover(self.dice.choice((other, *rest)), instance_id)
        self._deliver_among({other, *rest}, before=self.dice.choice((is_voting, is_told)))
        for letter in [each for each in self.letters if is_told(each) and self.dice.random() < 0.5]:
            self._deliver(letter)
        if self.dice.random() < 0.5:
            self._recover(self.dice.choice((one, near)), instance_id)
            self._deliver_among({one, near, rest[0]}, before=is_told)

    def _deliver_among(self, replicas: set[int], before: "Callable[[Letter], bool] | None" = None) -> None:
        """Deliver the messages among these replicas, and those that follow, except those `before` matches."""
        while letters := [
            each for each in self.letters if {each.sender, each.to} <= replicas and not (before and before(each))
        ]:
            self._deliver(letters[0])

    def _submit(self, home: int | None = None) -> None:
        self.commands -= 1
        home = home if home is not None else self.dice.choice(sorted(self.up))
        instance_id = InstanceId(home, self.replicas[home].log.highest.get(home, 0) + 1)
        operation = Put(key=KEY, value=str(instance_id).encode()) if self.dice.random() < 0.8 else Get(key=KEY)
        self.ids.append(instance_id)
        self.note(f"{NAMES[home]} puts {instance_id} forward: {type(operation).__name__}")
        command = Command(txns=(Txn(then=(operation,)),))
        self._begin(str(instance_id), home, submit(instance_id, command, self._context(home)))

    def _recover(self, home: int | None = None, instance_id: InstanceId | None = None) -> None:
        home = home if home is not None else self.dice.choice(sorted(self.up))
        instance_id = instance_id if instance_id is not None else self.dice.choice(self.ids)
        if not self.replicas[home].log.get(instance_id).is_committed:
            self.note(f"{NAMES[home]} recovers {instance_id}")
            self._begin(f"recovery of {instance_id}", home, recover(instance_id, self._context(home)))

    def _crash(self, victim: int | None = None) -> None:
        """Its flows end; what it holds stays, and it goes on at once. Or it is gone for good."""
        coordinators = sorted({each.replica_id for each in self.ids} & self.up)
        home = victim if victim is not None else self.dice.choice(coordinators or sorted(self.up))
        self.tasks = [task for task in self.tasks if task.home != home]
        for_good = len(self.up) > self.config.quorums.slow and (victim is not None or self.dice.random() < 0.7)
        self.note(f"{NAMES[home]} crashes{', for good' if for_good else ''}")
        if for_good:
            self.up.remove(home)

    def _ring(self) -> None:
        waiting = [task for task in self.tasks if task.is_waiting and task.is_timed]
        if waiting:
            task = self.dice.choice(waiting)
            watched = task.is_watching and self.dice.random() < 0.7
            self._happened(task, News() if watched else Expired())

    def _deliver(self, letter: Letter) -> None:
        self.letters.remove(letter)
        if letter.to not in self.up:
            return
        self.note(f"{NAMES[letter.sender]} {'<-' if letter.is_reply else '->'} {NAMES[letter.to]}: {say(letter.body)}")
        if letter.is_reply:
            task = letter.task
            if task is not None and task in self.tasks and task.round == letter.round:
                self._happened(task, Answer(letter.sender, letter.body))  # type: ignore[arg-type]
            return
        reply = self.replicas[letter.to].handle(letter.body)  # type: ignore[arg-type]
        self._tell_vote(letter.to, letter.body, reply)
        if letter.task is not None:
            self.letters.append(Letter(letter.to, letter.sender, reply, letter.task, letter.round, letter.flow, True))

    # Flows

    def _begin(self, what: str, home: int, flow: "Flow[object]") -> None:
        task = FlowTask(f"{what} at {NAMES[home]}", home, flow)
        self.tasks.append(task)
        self._go_on(task, None)

    def _happened(self, task: FlowTask, event: Event) -> None:
        if task.is_waiting:
            task.is_waiting = False
            self._go_on(task, event)
        else:
            task.events.append(event)

    def _go_on(self, task: FlowTask, result: object) -> None:
        try:
            while not task.is_waiting:
                result = self._perform(task, task.flow.send(result))
        except StopIteration as stop:
            self.note(f"{task.name} ends: {say(stop.value)}")
            self.tasks.remove(task)

    def _perform(self, task: FlowTask, effect: Effect) -> object:
        match effect:
            case Local():
                result = self.replicas[task.home].perform(effect.op)
                self._tell_vote(task.home, effect.op, result)
                return result
            case Next():
                task.is_watching = bool(effect.watching)
                if task.events:
                    return task.events.pop(0)
                task.is_waiting = True
            case Open():
                task.round += 1
                task.events.clear()
                task.is_timed = True
                self._send(task, effect.envelopes, waits=True)
            case Also():
                self._send(task, effect.envelopes, waits=True)
            case Tell():
                self._send(task, effect.envelopes, waits=False)
            case Pause() | Rescue():
                pass
            case _:
                assert_never(effect)
        return None

    def _send(self, task: FlowTask, envelopes: "dict[int, OrderedRequest] | object", *, waits: bool) -> None:
        assert isinstance(envelopes, dict)
        for to, request in envelopes.items():
            self.sent += 1
            if isinstance(request, OrderedCommit) and self.dice.random() < self.mute:
                continue
            self.letters.append(Letter(task.home, to, request, task if waits else None, task.round, task.name, False))

    def _tell_vote(self, voter: int, request: object, reply: object) -> None:
        """To the others, and to itself: its own vote counts when it is durable."""
        told = vote_broadcast(voter, self.config.voters, request, reply)
        if told is not None:
            flow = f"{NAMES[voter]} tells of its vote for {told.vote.id}"
            for to in (voter, *told.others):
                self.sent += to != voter
                self.letters.append(Letter(voter, to, told.vote, None, 0, flow, False))

    def _context(self, home: int) -> Context:
        return Context(me=home, config=self.config, dice=Steady(), timing=TxnTiming(retries=3))

    def note(self, text: str) -> None:
        self.trace.append(text)


def way_of(letter: Letter) -> tuple[str, type, int]:
    return letter.flow, type(letter.body), letter.sender if letter.is_reply else letter.to


def is_recovered(letter: Letter) -> bool:
    return isinstance(letter.body, OrderedAccept) and letter.body.ballot != NO_BALLOT


def is_told(letter: Letter) -> bool:
    return isinstance(letter.body, OrderedVote)


def is_voting(letter: Letter) -> bool:
    return isinstance(letter.body, OrderedAccept | OrderedVote)


class Steady:
    """Back-off has no meaning without time."""

    def uniform(self) -> float:
        return 0.5

    def nonce(self) -> int:
        return 0


def walk(plan: WalkPlan, *, tracing: bool = False) -> Report[AnyPlan]:
    scramble = Scramble(plan)
    failure = failure_of(scramble.play)
    decisions = scramble.judge.decisions.values()
    return Report(
        plan=plan,
        failure=failure,
        virtual_us=0,
        events=plan.steps,
        messages=scramble.sent,
        operations=len(scramble.ids),
        paths={},
        faults={},
        verdicts={"decided": len(decisions), "nothing": sum(commit.command is None for commit in decisions)},
        trace=scramble.trace if tracing else None,
    )
