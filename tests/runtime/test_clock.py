"""The clock and the dice of production."""

import asyncio

import pytest

from epoxy.runtime.clock import DRAWN_AT_ONCE, LoopClock, SystemDice


def test_timers_ring_after_their_delay_and_not_when_cancelled() -> None:
    async def ring() -> tuple[float, list[str]]:
        here, rung = LoopClock(asyncio.get_running_loop()), list[str]()
        over = asyncio.Event()
        begun_ms = here.now_ms()
        here.call_later(1.0, lambda: rung.append("cancelled")).cancel()
        here.call_later(5.0, over.set)
        await over.wait()
        return here.now_ms() - begun_ms, rung

    elapsed_ms, rung = asyncio.run(ring())
    assert elapsed_ms >= 4.0, "asyncio rounds to the resolution of its clock"
    assert rung == []


@pytest.mark.pure("replaces a function of the module")
def test_nonces_are_drawn_many_at_once_and_are_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    draws: list[int] = []

    def urandom(size: int) -> bytes:
        draws.append(size)
        return bytes(range(256)) * (size // 256)

    monkeypatch.setattr("epoxy.runtime.clock.os.urandom", urandom)
    dice = SystemDice()
    nonces = [dice.nonce() for _ in range(DRAWN_AT_ONCE + 1)]
    assert draws == [8 * DRAWN_AT_ONCE] * 2
    assert nonces[0] == int.from_bytes(bytes(range(248, 256)), "little")
    assert all(0 <= nonce < 1 << 64 for nonce in nonces)


def test_nonces_differ_between_dice() -> None:
    first, second = SystemDice(), SystemDice()
    assert not {first.nonce() for _ in range(64)} & {second.nonce() for _ in range(64)}


def test_a_uniform_number_is_at_least_0_and_below_1() -> None:
    dice = SystemDice()
    drawn = [dice.uniform() for _ in range(100)]
    assert all(0.0 <= each < 1.0 for each in drawn)
    assert len(set(drawn)) > 90
