"""The production store on a simulated disk."""

import pytest

from epoxy.model.errors import StoreRefused
from epoxy.store.embedded.store import EmbeddedStore
from epoxy_sim.disk import embedded_disk
from epoxy_sim.disk.embedded_disk import FOLDER, EmbeddedDisk
from epoxy_sim.disk.volume import SimFile, SimFolder
from epoxy_sim.keys.plan import Plan
from tests.sim.disk.users import HandUser
from tests.sim.keys.bench import Town, plan_of, prepare


def keys(store: EmbeddedStore) -> list[bytes]:
    return [key for key, _ in store.newest().range(b"", b"\xff", limit=1000)]


def put(store: EmbeddedStore, *numbers: int) -> None:
    for number in numbers:
        store.put({b"%03d" % number: b"v" * 50}, None)


def left(disk: EmbeddedDisk) -> list[bytes]:
    return keys(disk.open(HandUser()))


def named(*numbers: int) -> list[bytes]:
    return [b"%03d" % number for number in numbers]


def test_what_is_synced_outlives_a_crash_and_a_checkpoint() -> None:
    disk, user = EmbeddedDisk("seed", 1), HandUser()
    store = disk.open(user)
    for number in range(200):
        put(store, number)
        user.sync()
    assert store.position() == 200
    disk.crash(0.0)
    again = disk.open(HandUser())
    assert keys(again) == named(*range(200))
    assert again.position() == 200
    log = disk.volume.folder(FOLDER / "log")
    assert len(log.now) < 10, "generations went to the tree"


def test_what_is_not_synced_is_lost_or_kept_as_a_prefix() -> None:
    """Each of these is one frame: it is there whole, or not at all."""
    found = set()
    for seed in range(40):
        disk, user = EmbeddedDisk(f"{seed}", 1), HandUser()
        store = disk.open(user)
        put(store, 1)
        user.sync()
        put(store, 2, 3)
        user.waiting.popleft()()
        put(store, 4)
        disk.crash(0.5)
        found.add(tuple(left(disk)))
    assert found == {tuple(named(1)), tuple(named(1, 2, 3))}


def test_starts_are_cut_short_too() -> None:
    cut: list[int] = []
    for seed in range(40):
        disk = EmbeddedDisk(f"{seed}", 1)
        disk.open(HandUser())
        disk.crash(0.5)
        cut.append(disk._cut_starts)
        assert left(disk) == []
    assert 0 < sum(cut) < len(cut)


def test_an_image_is_a_disk_of_its_own() -> None:
    disk, user = EmbeddedDisk("seed", 1), HandUser()
    store = disk.open(user)
    put(store, 1)
    user.sync()
    copy = disk.image()
    put(store, 2)
    user.sync()
    disk.crash(0.0)
    assert (left(copy), left(disk)) == (named(1), named(1, 2))


def test_a_lie_is_found_out_by_a_lower_position_or_refused() -> None:
    found = set()
    for seed in range(40):
        disk, user = EmbeddedDisk(f"{seed}", 1), HandUser()
        store = disk.open(user)
        put(store, 1)
        user.sync()
        disk.lie()
        for number in range(2, 60):
            put(store, number)
            user.sync()
        assert store.position() == 59
        disk.crash(seed % 2 / 2)
        try:
            again = disk.open(HandUser())
        except StoreRefused:
            found.add("refused")
            continue
        assert again.position() < 59
        assert keys(again) == named(*range(1, again.position() + 1))
        found.add("lower")
    assert found == {"refused", "lower"}


def test_a_log_that_is_gone_is_refused() -> None:
    disk, user = EmbeddedDisk("seed", 1), HandUser()
    put(disk.open(user), 1)
    user.sync()
    disk.crash(0.0)
    log = disk.volume.folder(FOLDER / "log")
    assert all(isinstance(node, SimFile) for node in log.now.values())
    disk.volume.folder(FOLDER).add("log", SimFolder())
    disk.volume.folder(FOLDER).sync()
    for _ in range(2):
        with pytest.raises(StoreRefused):
            disk.open(HandUser())


def test_a_disk_that_fails_ends_the_process() -> None:
    disk, user = EmbeddedDisk("seed", 1), HandUser()
    store = disk.open(user)
    user.sync()
    user.error = OSError(28, "no space left on the disk")
    told: list[bool] = []
    put(store, 1)
    store.when_durable(lambda: told.append(True))
    user.sync()
    assert told == []
    assert len(user.failures) == 1
    assert "no space left" in user.failures[0]


# In a machine


def embedded(**fields: object) -> Plan:
    plan = plan_of()
    return type(plan)(**{name: getattr(plan, name) for name in plan.__struct_fields__} | {"embedded": True} | fields)


def test_a_machine_whose_store_is_refused_stays_down(monkeypatch: pytest.MonkeyPatch) -> None:
    town = Town(embedded(), tracing=True)
    machine = town.machine(1)
    town.handle(1, prepare(2))
    town.pass_ms(10)
    machine.crash()

    def refuse(*_: object, **__: object) -> None:
        raise StoreRefused("planted")

    with monkeypatch.context() as patch:
        patch.setattr(embedded_disk, "EmbeddedStore", refuse)
        machine.start()
    assert (machine.life, machine.stops) == (None, ["planted"])
    assert any("A does not start: planted" in line for line in town.world.trace or [])
    machine.start()
    assert town.state(1).promised.counter == 2


@pytest.mark.parametrize("fault", ["fsync_fails", "disk_full"])
def test_a_machine_stops_with_its_disk(fault: str) -> None:
    town = Town(embedded())
    machine = town.machine(1)
    town.pass_ms(10)
    setattr(machine, fault, True)
    hopes = town.handle(1, prepare(3))
    town.pass_ms(1000)
    assert (machine.life, hopes, len(machine.stops)) == (None, [], 1)
    machine.disk_full = False
    machine.start()
    assert machine.life is not None


def test_a_lost_disk_is_another_one() -> None:
    town = Town(embedded())
    machine = town.machine(1)
    town.handle(1, prepare(2))
    town.pass_ms(10)
    machine.lose_disk()
    machine.start()
    assert town.state(1).promised.counter == 0
