"""Secrets that are replaced while links are up: every step of a rotation, and what ends with a secret that is gone."""

import asyncio

import pytest

from epoxy.model.messages import AcceptOk, Failed
from epoxy.transport.limits import PeerLimits
from epoxy.transport.peers.auth import BadSignature, Verifier, greeting_of, sign
from epoxy.transport.peers.keyring import Keyring, SigningKey, fingerprint_of, keyring_of
from epoxy.transport.peers.signed_header import SignedHeader
from tests.transport.http.harness import run, until
from tests.transport.peers.pair import ME, PEER, Caller, Replica, accept, peers_to, replica_server

OLD, NEW, NOW_MS = b"old" * 8, b"new" * 8, 1_800_000_000_000
QUICK = PeerLimits(timeout_ms=20_000, tick_ms=5, backoff_ms=5, backoff_cap_ms=20)
"""To connect again; but no answer is late, however slow the machine."""


def ring(*secrets: bytes) -> Keyring:
    return Keyring(*map(SigningKey, secrets))


def change(keyring: Keyring, *secrets: bytes) -> None:
    keyring.replace(map(SigningKey, secrets))


def test_a_secret_that_stays_keeps_its_key() -> None:
    keyring = ring(OLD)
    old = keyring.spoken
    change(keyring, OLD, NEW)
    assert keyring.spoken is old
    _, new = keyring.keys
    change(keyring, NEW, OLD)
    assert keyring.keys == (new, old)
    assert not old.retired
    change(keyring, NEW)
    assert list(keyring.keys) == [new]
    assert old.retired
    assert not new.retired
    with pytest.raises(AssertionError):
        keyring.replace([])


def test_a_fingerprint_tells_secrets_apart_and_is_short() -> None:
    assert fingerprint_of(OLD) == SigningKey(OLD).fingerprint != fingerprint_of(NEW)
    assert len(fingerprint_of(OLD)) == 6
    assert keyring_of(OLD).spoken.secret == OLD


def signed(secret: bytes, nonce: int) -> tuple[dict[bytes, bytes], bytes]:
    signature, mac = sign(secret, SignedHeader(ME, PEER, 1, NOW_MS, nonce), b"/path", b"body")
    return {b"authorization": signature}, mac


def test_both_secrets_are_accepted_and_answered_with_the_one_that_was_used() -> None:
    verifier = Verifier(PEER, keyring := ring(OLD, NEW), now_ms=lambda: NOW_MS)
    for nonce, secret in enumerate((OLD, NEW)):
        headers, mac = signed(secret, nonce)
        request = verifier.verify(headers, b"/path", b"body")
        _, value = verifier.answer(request, 200, b"yes")
        assert greeting_of(secret, mac, 200, value, b"yes") is not None
        with pytest.raises(BadSignature, match="repetition"):
            verifier.verify(headers, b"/path", b"body")
    change(keyring, NEW)
    with pytest.raises(BadSignature, match="not signed with our secret"):
        verifier.verify(signed(OLD, 2)[0], b"/path", b"body")
    verifier.verify(signed(NEW, 3)[0], b"/path", b"body")


async def spoken_by(caller: Caller) -> set[str]:
    links = caller.peers._peers[PEER]._connections
    await until(lambda: len(links._open) == 2)
    return {dial.key.fingerprint for dial in links._open if dial.key is not None}


def test_a_rotation_step_by_step_fails_no_message() -> None:
    here, there = ring(OLD), ring(OLD)
    steps = [(there, (OLD, NEW)), (here, (OLD, NEW)), (there, (NEW, OLD)), (here, (NEW, OLD)), (there, (NEW,))]

    async def story() -> None:
        opened = replica_server(Replica(), secret=there)
        async with opened as server, peers_to(server.port, secret=here, limits=QUICK) as caller:
            number = 0
            for keyring, secrets in [*steps, (here, (NEW,))]:
                change(keyring, *secrets)
                for _ in range(20):
                    number += 1
                    assert await caller.send(accept(number)) == AcceptOk()
                    server.connections.sweep(asyncio.get_running_loop().time())
                    await asyncio.sleep(0.002)
                if here.spoken.secret == NEW:
                    while await spoken_by(caller) != {fingerprint_of(NEW)}:
                        await asyncio.sleep(0.005)

    run(story())


def after_removal(there: Keyring, server_keeps: tuple[bytes, ...]) -> bool:
    """Whether a link that speaks the old secret still works when the server's file has others."""
    outcome = []

    async def story() -> None:
        opened = replica_server(Replica(), secret=there)
        async with opened as server, peers_to(server.port, secret=OLD, limits=QUICK) as caller:
            assert await caller.insist(accept(1)) == AcceptOk()
            change(there, *server_keeps)
            for _ in range(3):
                server.connections.sweep(asyncio.get_running_loop().time())
                await asyncio.sleep(0.02)
            outcome.append(await caller.send(accept(2)))

    run(story())
    return not isinstance(outcome[0], Failed)


def test_sessions_of_a_secret_that_is_gone_end() -> None:
    assert after_removal(ring(OLD, NEW), (NEW, OLD))
    assert not after_removal(ring(OLD, NEW), (NEW,))


@pytest.mark.pure("replaces a method")
def test_a_planted_fault_a_removed_secret_that_still_works_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Keyring, "replace", lambda self, keys: setattr(self, "keys", tuple(keys)))
    assert after_removal(ring(OLD, NEW), (NEW,)), "without `retired` the session goes on, and the check above fails"
