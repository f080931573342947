"""A small simulator of grants: production's AccessControl, Replica and Driver on machines of the simulator.

No machine has a learner, so a commit that was lost is found by AccessControl's own reads or never. A run goes in
rounds: some machines are struck, grants are made and revoked, the others must follow within the bound; then all faults
end, and all must.
"""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from epoxy.model.access import ACCESS_KEY, AccessRole, AccessTable, Grant, TokenDigest
from epoxy.model.errors import CodecError
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Committed, Outcome, Write
from epoxy.node.access.control import MISSED_S, AccessControl, Edited
from epoxy.node.access.table_record import decode_table, encode_table
from epoxy.protocol.access.grants import with_grant, without_grant
from epoxy.protocol.access.tokens import digest_of, token_of
from epoxy.protocol.effects import Adopt, Timing
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.machine import Life, Machine
from epoxy_sim.keys.network import Network
from epoxy_sim.keys.plan import ClusterPlan, Weather
from epoxy_sim.world import World

BEGAN_S = 1_000_000
BOUND_US = int(1_000_000 * MISSED_S)
ANSWER_US = 60_000_000
"""A change without a quorum is given up long before."""

STRANGER = token_of(bytes(32)).encode()
GARBAGE = b"\x07grants of another version"


class AccessMachine(Machine):
    wall_s = 0.0
    """How wrong its clock is."""

    def __init__(self, machine_id: int, world: World, network: Network, judge: Judge, plan: ClusterPlan) -> None:
        super().__init__(machine_id, world, network, judge, plan)
        self.alarms: list[str] = []

    def start(self) -> None:
        is_new = self.life is None
        super().start()
        if is_new and isinstance(self.life, AccessLife):
            self.life.judge_start()
            self.run(self.life, self.life.access.start)

    def new_life(self) -> Life:
        return AccessLife(self)

    @property
    def access(self) -> AccessControl:
        assert isinstance(self.life, AccessLife), f"{self.name} is down"
        return self.life.access


class AccessLife(Life):
    machine: AccessMachine

    def __init__(self, machine: AccessMachine) -> None:
        super().__init__(machine)
        alarm, self.highest = machine.alarms.append, 0
        self.access = AccessControl(self.driver, self.store, self, alarm, is_open=False, unix_s=self.unix_s)

    def unix_s(self) -> float:
        return BEGAN_S + self.machine.world.now_us / 1_000_000 + self.machine.wall_s

    def judge_start(self) -> None:
        """What its disk has is in force before any other machine is heard."""
        stored = self.replica.peek(ACCESS_KEY, use_cache=False)
        assert stored is not None or self.access.version == 0
        if stored is not None and stored.committed is not None:
            try:
                table = decode_table(stored.committed.value)
            except CodecError:
                table = AccessTable()
            assert self.access.table == table, f"{self.machine.name} forgot its grants"


class Issued:
    """A token, and what is known of its grant: since when all must accept it, or refuse it."""

    def __init__(self, number: int, end_s: int = 0) -> None:
        self.token = token_of(number.to_bytes(32, "big")).encode()
        self.grant = Grant(
            name=f"g{number}",
            roles=(AccessRole.READER,),
            digests=(TokenDigest(sha256=digest_of(self.token)),),
            expires_s=end_s,
        )
        self.made_us: int | None = None
        self.revoked_us: int | None = None
        self.is_uncertain = False


class Town:
    def __init__(self, seed: int) -> None:
        self.dice = dice = Random(f"revocations/{seed}")
        n = dice.choice((3, 5))
        places = tuple(dice.uniform(0, 120) for _ in range(n))
        plan = ClusterPlan(
            seed=seed,
            n=n,
            policy=QuorumPolicy.OPTIMAL,
            timing=Timing(hedge_ms=400, round_timeout_ms=600, backoff_ms=60),
            places=places,
            weather=Weather(),
            skew=tuple(dice.uniform(0.95, 1.05) for _ in range(n)),
            faults_end_us=0,
        )
        self.world = World()
        self.network = Network(self.world, plan)
        judge = Judge()
        self.machines = [AccessMachine(i, self.world, self.network, judge, plan) for i in range(1, n + 1)]
        self.network.machines = {machine.id: machine for machine in self.machines}
        self.issued: list[Issued] = []
        for machine in self.machines:
            machine.wall_s = dice.uniform(-0.5, 0.5)
            machine.start()
        self.network.introduce(range(1, n + 1))

    def play(self, rounds: int = 4) -> None:
        for _ in range(rounds):
            self.play_round()
        self.judge_rest()

    def play_round(self) -> None:
        dice, faults = self.dice, (self.cut_off, self.crash, self.pause, self.nothing)
        struck = dice.sample(self.machines, dice.randrange(0, (len(self.machines) + 1) // 2))
        others = [machine for machine in self.machines if machine not in struck]
        self.network.weather = Weather(
            commit_loss=dice.choice((0.0, 0.7, 1.0)), duplicate=dice.choice((0.0, 0.2)), long_delay=0.0
        )
        for machine in struck:
            dice.choice(faults)(machine)
        self.run_for(dice.randrange(0, 2_000_000))
        for _ in range(dice.randrange(1, 4)):
            self.change(dice.choice(others))
        if dice.random() < 0.2:
            self.garbage(dice.choice(others))
        self.run_for(BOUND_US)
        self.judge_all(others)
        if dice.random() < 0.4:
            self.crash_in_change(dice.choice(others))
        self.relent()
        self.run_for(BOUND_US)
        self.judge_all(self.machines)

    # Faults

    def nothing(self, _: AccessMachine) -> None:
        """A machine that is struck and goes on."""

    def cut_off(self, machine: AccessMachine) -> None:
        rest = [each.id for each in self.machines if each is not machine]
        self.network.block([machine.id], rest)
        self.network.block(rest, [machine.id])
        if self.dice.random() < 0.5:
            machine.crash(keep=self.dice.random())
            machine.start()

    def crash(self, machine: AccessMachine) -> None:
        machine.crash(keep=self.dice.random())

    def pause(self, machine: AccessMachine) -> None:
        machine.paused = True

    def relent(self) -> None:
        self.network.heal()
        for machine in self.machines:
            if machine.paused:
                machine.resume()
            machine.start()

    # Changes

    def change(self, machine: AccessMachine) -> None:
        """One change, and its answer."""
        living = [each for each in self.issued if each.made_us is not None and each.revoked_us is None]
        living = [each for each in living if not each.is_uncertain]
        if living and self.dice.random() < 0.5:
            self.revoke(machine, self.dice.choice(living))
            return
        lives_s = self.dice.choice((0, 0, 3, 8))
        end_s = BEGAN_S + self.world.now_us // 1_000_000 + lives_s if lives_s else 0
        made = Issued(len(self.issued) + 1, end_s)
        self.issued.append(made)
        if self.edit(machine, lambda before: with_grant(before, made.grant)):
            made.made_us = self.world.now_us
        else:
            made.is_uncertain = True

    def revoke(self, machine: AccessMachine, issued: Issued) -> None:
        issued.is_uncertain = True
        if self.edit(machine, lambda before: without_grant(before, issued.grant.name)):
            issued.is_uncertain, issued.revoked_us = False, self.world.now_us

    def crash_in_change(self, machine: AccessMachine) -> None:
        """Its vote stays behind, sometimes alone."""
        life = machine.life
        assert life is not None
        made = Issued(len(self.issued) + 1)
        made.is_uncertain = True
        self.issued.append(made)
        machine.access.change(lambda before: with_grant(before, made.grant), lambda _: None)
        if self.dice.random() < 0.5:
            self.run_for(self.dice.randrange(0, 300_000))
        else:
            self.world.run_until(
                lambda: life.replica.in_flight(ACCESS_KEY)[1] is not None, self.world.now_us + 1_000_000
            )
        machine.crash(keep=1.0)

    def edit(self, machine: AccessMachine, edit: Callable[[AccessTable], AccessTable]) -> bool:
        answers: list[Edited] = []
        machine.access.change(edit, answers.append)
        self.world.run_until(lambda: bool(answers), self.world.now_us + ANSWER_US)
        assert answers, "a change without an answer"
        return isinstance(answers[0], AccessTable)

    def garbage(self, machine: AccessMachine) -> None:
        """A value that no machine can read, for a while; what was in force stays so, and is then written again."""
        self.write(machine, GARBAGE)
        self.run_for(BOUND_US)
        for each in self.up():
            assert not each.access.is_open
            assert each.access.of_token(STRANGER) is None
        grants = [issued.grant for issued in self.issued if issued.made_us is not None and issued.revoked_us is None]
        for issued in self.issued:
            issued.is_uncertain |= issued.made_us is None
        self.write(machine, encode_table(AccessTable(grants=tuple(sorted(grants, key=lambda grant: grant.name)))))

    def write(self, machine: AccessMachine, value: bytes) -> None:
        outcomes: list[Outcome] = []
        assert machine.life is not None
        machine.life.driver.write(Write(key=ACCESS_KEY, value=value, mutable=True), outcomes.append)
        self.world.run_until(lambda: bool(outcomes), self.world.now_us + ANSWER_US)
        assert isinstance(outcomes[0], Committed)

    def run_for(self, time_us: int) -> None:
        until_us = self.world.now_us + time_us
        self.world.run_until(self.judge_versions, until_us)
        self.world.now_us = until_us

    # Judgement

    def up(self) -> list[AccessMachine]:
        return [machine for machine in self.machines if machine.life is not None and not machine.paused]

    def judge_versions(self) -> bool:
        """After every event: a process does not go back to a table of the past."""
        for machine in self.machines:
            if isinstance(machine.life, AccessLife):
                assert machine.access.version >= machine.life.highest, f"{machine.name} goes back"
                machine.life.highest = machine.access.version
        return False

    def judge_all(self, machines: list[AccessMachine]) -> None:
        """Machines that have reached a quorum for the whole of the bound, which is behind all changes."""
        tables = {machine.access.version: machine.access.table for machine in machines}
        assert len(tables) == 1, f"versions {sorted(tables)}"
        for machine in machines:
            assert not machine.access.is_open
            assert machine.access.of_token(STRANGER) is None
            for issued in self.issued:
                if not issued.is_uncertain:
                    self.judge(machine, issued)

    def judge(self, machine: AccessMachine, issued: Issued) -> None:
        name, found = issued.grant.name, machine.access.of_token(issued.token)
        assert isinstance(machine.life, AccessLife)
        left_s = issued.grant.expires_s - machine.life.unix_s() if issued.grant.expires_s else 1e9
        if issued.revoked_us is not None or left_s < -MISSED_S:
            assert found is None, f"{name} was revoked or has ended, and {machine.name} accepts it"
        elif left_s > 0:
            assert found is not None, f"{name} is in force, and {machine.name} refuses it"

    def judge_rest(self) -> None:
        """At rest no disk is synced, whatever failed changes left behind, also in an earlier epoch: reads finish those
        votes at once."""
        self.network.weather = Weather()
        for machine in self.machines:
            assert machine.life is not None
            config = machine.life.replica.config
            machine.life.replica.perform(Adopt(config=replace(config, epoch=config.epoch + 1)), lambda _: None)
        self.run_for(30_000_000)
        before = [machine.life.store.position() for machine in self.machines if machine.life is not None]
        self.run_for(30_000_000)
        after = [machine.life.store.position() for machine in self.machines if machine.life is not None]
        assert after == before, "disks are synced at rest"
        assert len({machine.access.version for machine in self.machines}) == 1
