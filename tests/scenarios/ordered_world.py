"""Replicas of the ordered engine around one table: production's rules, flows and rows."""

from collections.abc import Callable, Mapping
from functools import partial

from epoxy.model.cluster import ClusterConfig
from epoxy.model.instances import Command, Instance, InstanceId, OrderedCommit, OrderedReply, OrderedRequest
from epoxy.node.txn.executor import Results
from epoxy.node.txn.replica import OrderedReplica
from epoxy.protocol.effects import Answer, Context, News
from epoxy.protocol.txn.acceptor import commit_of
from epoxy.protocol.txn.coordinator import submit
from epoxy.protocol.txn.effects import Flow, Rescue, TxnOp, TxnTiming
from epoxy.protocol.txn.recovery import recover
from epoxy.protocol.txn.votes import vote_broadcast
from epoxy.store.memory import MemoryStore
from tests.scenarios import ordered_prose as words
from tests.scenarios.flow_table import FlowTable, Running
from tests.scenarios.prose import name
from tests.scenarios.table import LetterTable, ScenarioError


class Steady:
    def uniform(self) -> float:
        return 0.0

    def nonce(self) -> int:
        return 0


class OrderedWorld(FlowTable, LetterTable):
    def __init__(self, config: ClusterConfig, say: Callable[[str], None]) -> None:
        super().__init__(say, config.replica_ids)
        self.config = config
        self.stores = {i: MemoryStore() for i in config.replica_ids}
        self.replicas = {i: self._replica(i) for i in config.replica_ids}
        self.running: list[Running] = []
        self._asked: dict[InstanceId, Command] = {}
        """Of clients who wait, by what was put forward for them."""
        self._keys: set[bytes] = set()
        self._news: list[tuple[int, InstanceId]] = []
        self._decided: dict[InstanceId, OrderedCommit] = {}
        self._later: list[str] = []

    def _replica(self, i: int) -> OrderedReplica:
        replica = OrderedReplica(i, self.stores[i], self.config)
        replica.on_executed = partial(self._executed, i)
        replica.on_change = self._agree
        replica.on_news = lambda instance_id: self._news.append((i, instance_id))
        return replica

    # What a script asks for

    def txn(self, home: int, command: Command) -> None:
        self.must_be_up(home)
        self._keys.update(command.footprint)
        instance_id = InstanceId(home, self.replicas[home].log.highest.get(home, 0) + 1)
        self._asked[instance_id] = command
        self._begin(home, instance_id, submit(instance_id, command, self._context(home)))

    def recover(self, home: int, instance_id: InstanceId) -> None:
        self.must_be_up(home)
        self._begin(home, instance_id, recover(instance_id, self._context(home)))

    def ring(self, owner: int) -> None:
        running = next((each for each in self.running if each.owner == owner), None)
        if running is None:
            raise ScenarioError(f"{name(owner)} waits for nothing")
        self.ring_for(running)
        self._hear_news()

    def deliver(self, sender: int, to: int, nth: int) -> None:
        super().deliver(sender, to, nth)
        self._hear_news()

    def crash(self, owner: int) -> None:
        super().crash(owner)
        self.running = [each for each in self.running if each.owner != owner]
        self._asked = {each: command for each, command in self._asked.items() if each.replica_id != owner}

    def restart(self, owner: int) -> None:
        super().restart(owner)
        self.replicas[owner] = self._replica(owner)
        self.replicas[owner].start()
        self._say_executed()

    def tell_state(self) -> None:
        for i, replica in self.replicas.items():
            view = self.stores[i].newest()
            values = {key.decode(): replica.space.held(view, key).value for key in sorted(self._keys)}
            shown = ", ".join(f"{key}={value.decode()}" for key, value in values.items() if value is not None)
            waiting = [
                f"{words.iid(each.id)} {words.held(each)}"
                for each in sorted(replica.log.instances.values(), key=lambda each: each.id)
                if not replica.log.is_executed(each.id)
            ]
            down = "" if self.up[i] else " (down)"
            self.say(f"{name(i)}{down}: {'; '.join([shown or 'no values', *waiting])}")

    # Flows

    def _context(self, home: int) -> Context:
        return Context(me=home, config=self.config, dice=Steady(), timing=TxnTiming(retries=3))

    def _begin(self, home: int, instance_id: InstanceId, flow: Flow[object]) -> None:
        running = Running(owner=home, id=instance_id, steps=flow)
        self.running.append(running)
        self.resume(running, None)

    def finish(self, running: Running, result: object) -> None:
        assert running.id is not None
        self.running.remove(running)
        self.say(f"{name(running.owner)}: {words.iid(running.id)} is {words.ending(result)}")

    def perform_local(self, owner: int, op: TxnOp) -> object:
        result = self.replicas[owner].perform(op)
        told = words.at_home(op, result)
        if told is not None:
            self.say(f"{name(owner)} {told}")
        self._say_executed()
        self._tell_vote(owner, op, result)
        return result

    def perform_other(self, running: Running, effect: object) -> None:
        assert isinstance(effect, Rescue), effect
        for instance_id in effect.ids:
            self.recover(running.owner, instance_id)

    def _hear_news(self) -> None:
        """Of what a flow waits for, after whatever brought it."""
        while self._news:
            replica, instance_id = self._news.pop(0)
            for running in [each for each in self.running if each.owner == replica and instance_id in each.watching]:
                self.resume(running, News())

    # Messages

    def send(self, running: Running, verb: str, envelopes: Mapping[int, OrderedRequest], *, waits: bool = True) -> None:
        self.say_sent(running.owner, verb, envelopes, words.request)
        for to, request in envelopes.items():
            asker = (running, running.round) if waits else None
            self.post(running.owner, to, words.request(request), partial(self._arrive, to, request, asker))

    def _arrive(self, to: int, request: OrderedRequest, asker: tuple[Running, int] | None) -> None:
        reply = self.replicas[to].handle(request)
        self.say(f"{name(to)} gets {words.request(request)}: {words.reply(reply)}")
        self._say_executed()
        if asker is not None:
            running, _ = asker
            self.post(to, running.owner, words.reply(reply), partial(self._answer, to, reply, *asker))
        self._tell_vote(to, request, reply)

    def _answer(self, sender: int, reply: OrderedReply, running: Running, round_number: int) -> None:
        if running not in self.running or not running.waits_for(round_number):
            self.say(f"{name(running.owner)} no longer waits for {name(sender)}: {words.reply(reply)}")
            return
        self.say(f"{name(running.owner)} hears from {name(sender)}: {words.reply(reply)}")
        self.resume(running, Answer(sender, reply))

    def _tell_vote(self, voter: int, request: object, reply: object) -> None:
        """A vote is durable at once here, so the voter counts it at once."""
        told = vote_broadcast(voter, self.config.voters, request, reply)
        if told is not None:
            if told.others:
                self.say(f"{name(voter)} tells {' '.join(map(name, told.others))} of its vote")
            self.replicas[voter].handle(told.vote)
            self._say_executed()
            for to in told.others:
                self.post(voter, to, words.request(told.vote), partial(self._arrive, to, told.vote, None))

    # What comes of it

    def _executed(self, replica: int, instance_id: InstanceId, results: Results) -> None:
        self._later.append(f"{name(replica)} executes {words.iid(instance_id)}")
        asked = self._asked.pop(instance_id, None) if instance_id.replica_id == replica else None
        if asked is None:
            return
        if results is None:
            self._later.append(f"{name(replica)} has to put it forward again: {words.iid(instance_id)} is nothing")
        else:
            self._later.append(f"{name(replica)} answers its client: {words.results(results)}")

    def _say_executed(self) -> None:
        """After what brought it about."""
        lines, self._later = self._later, []
        for line in lines:
            self.say(line)

    def _agree(self, instance: Instance) -> None:
        """One instance, one decision, whatever the script does."""
        if instance.is_committed:
            commit = commit_of(instance)
            first = self._decided.setdefault(instance.id, commit)
            assert first == commit, f"two decisions: {first} and {commit}"
