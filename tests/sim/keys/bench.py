"""A small simulated cluster, for tests of one part of it at a time."""

from collections.abc import Callable, Sequence

from epoxy.codec.plain_requests import Incoming, decoded
from epoxy.model.ballot import Ballot
from epoxy.model.messages import Commit, Prepare, Reply, Request
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import KeyState, Proposal, ProposalId
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.client import Client, Recorder
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.machine import Life, Machine
from epoxy_sim.keys.nemesis import Nemesis
from epoxy_sim.keys.network import Network
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, Plan, Step, Weather
from epoxy_sim.world import World

KEY = b"key-0"
FINE = Weather(jitter=0.0)
SECOND_US = 1_000_000


def plan_of(
    n: int = 3,
    *,
    seed: int = 1,
    weather: Weather = FINE,
    places: tuple[float, ...] | None = None,
    skew: tuple[float, ...] | None = None,
    clients: tuple[ClientPlan, ...] = (),
    faults: tuple[Fault, ...] = (),
    faults_end_us: int = SECOND_US,
    encoded: bool = False,
) -> Plan:
    return Plan(
        seed=seed,
        n=n,
        policy=QuorumPolicy.OPTIMAL,
        timing=Timing(hedge_ms=20.0, round_timeout_ms=50.0),
        places=places or (0.0,) * n,
        weather=weather,
        skew=skew or (1.0,) * n,
        faults_end_us=faults_end_us,
        clients=clients,
        faults=faults,
        encoded=encoded,
    )


def step(
    ask: Ask, *, at_us: int = 0, key: int = 0, value: int = 1, consistency: Consistency = Consistency.LINEARIZABLE
) -> Step:
    return Step(at_us=at_us, ask=ask, key=key, value=value, consistency=consistency)


def prepare(counter: int, by: int = 1, *, key: bytes = KEY) -> Prepare:
    return Prepare(key=key, epoch=1, ballot=Ballot(counter, by), base=0)


def proposal(value: bytes = b"v", version: int = 1, *, by: int = 1, mutable: bool = False) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(by, version))


def commit(value: bytes = b"v") -> Commit:
    return Commit(key=KEY, epoch=1, proposal=proposal(value))


class Town:
    """Machines are up and idle, without clients."""

    def __init__(self, plan: Plan | None = None, *, tracing: bool = False) -> None:
        self.plan = plan or plan_of()
        self.world = World(tracing=tracing)
        self.judge = Judge()
        self.recorder = Recorder()
        self.network = Network(self.world, self.plan)
        self.machines = [Machine(i, self.world, self.network, self.judge, self.plan) for i in range(1, self.plan.n + 1)]
        self.network.machines = {machine.id: machine for machine in self.machines}
        self.nemesis = Nemesis(self.world, self.network, self.machines)
        for machine in self.machines:
            machine.start()
        self.network.introduce(self.plan.first_members)
        self.pass_ms(1)

    def pass_ms(self, ms: float) -> None:
        over: list[bool] = []
        self.world.after(int(ms * 1000), lambda: over.append(True))
        assert self.world.run_until(lambda: bool(over), self.world.now_us + int(ms * 1000))

    def machine(self, machine_id: int) -> Machine:
        return self.machines[machine_id - 1]

    def life(self, machine_id: int) -> Life:
        life = self.machine(machine_id).life
        assert life is not None, "it is down"
        return life

    def state(self, machine_id: int, key: bytes = KEY) -> KeyState:
        return self.life(machine_id).load(key)

    def handle(self, machine_id: int, *requests: Request) -> list[Reply]:
        """Straight to a replica, past the network. The list fills when the answer leaves."""
        replies: list[Reply] = []
        life = self.life(machine_id)
        life.run(lambda: life.replica.handle(requests, replies.append))
        return replies

    def send(self, sender: int, to: int, *requests: Request) -> list[Reply]:
        replies: list[Reply] = []
        self.life(sender).send(to, requests, replies.append)
        return replies

    def mailbox(self, machine_id: int) -> list[Request]:
        """What reaches a replica from here on."""
        mail: list[Request] = []
        replica = self.life(machine_id).replica
        handle = replica.handle

        def open_it(requests: Sequence[Incoming], answered: Callable[[Reply], None]) -> None:
            mail.extend([decoded(each) for each in requests])
            handle(requests, answered)

        replica.handle = open_it  # type: ignore[method-assign]
        return mail

    def client(self, *steps: Step, home: int = 1, name: str = "c") -> Client:
        plan = ClientPlan(home=home, steps=steps)
        client = Client(name, plan, self.machines, self.world, self.judge, self.recorder)
        client.start()
        return client
