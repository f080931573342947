"""TLS, and certificates on both sides. The certificates are made here and live as long as the test."""

import ssl
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from epoxy.model.messages import AcceptOk, Failed
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.limits import HttpLimits
from epoxy.transport.tls import TlsContexts, TlsFiles, certificate_names, client_context, flaw_of, server_context
from tests.transport.http.harness import get, run, running_server
from tests.transport.peers.pair import HASTY, PEER, Replica, accept, peers_to, replica_server


class Office:
    """An authority, and the files a node's [tls] names."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(exist_ok=True)
        self._authority = trustme.CA()
        self._folder = folder
        self.ca = folder / f"{name}.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))

    def issue(self, *names: str, expires: datetime | None = None, file: str = "") -> tuple[Path, Path]:
        certificate = self._authority.issue_cert(*names, not_after=expires)
        file = file or names[0]
        cert, key = self._folder / f"{file}-cert.pem", self._folder / f"{file}-key.pem"
        certificate.private_key_pem.write_to_path(str(key))
        for number, blob in enumerate(certificate.cert_chain_pems):
            blob.write_to_path(str(cert), append=number > 0)
        return cert, key


@pytest.fixture
def ours(tmp_path: Path) -> Office:
    return Office(tmp_path / "ours", "ca")


@pytest.fixture
def theirs(tmp_path: Path) -> Office:
    return Office(tmp_path / "theirs", "ca")


def test_both_sides_show_certificates(ours: Office) -> None:
    serving = server_context(*ours.issue("127.0.0.1"), ours.ca)
    client = client_context(*ours.issue("peer-1"), ours.ca)

    async def story() -> None:
        strict = replica_server(Replica(), ssl=serving, certificates=True)
        async with strict as server, peers_to(server.port, scheme="https", ssl=client) as caller:
            assert await caller.send(accept(1)) == AcceptOk()
            assert await caller.send(accept(2, size=1 << 20)) == AcceptOk()

    run(story())


def test_a_peer_without_a_certificate_is_let_in_only_where_none_is_asked_for(ours: Office) -> None:
    replica = Replica()
    serving = server_context(*ours.issue("127.0.0.1"), ours.ca)
    client = client_context(None, None, ours.ca)

    async def story() -> None:
        strict = replica_server(replica, ssl=serving, certificates=True)
        async with strict as server, peers_to(server.port, scheme="https", ssl=client, limits=HASTY) as caller:
            assert isinstance(await caller.send(accept(1)), Failed)
            assert not caller.peers.reachable(PEER)
        assert replica.asked == []
        async with (
            replica_server(replica, ssl=serving) as server,
            peers_to(server.port, scheme="https", ssl=client) as caller,
        ):
            assert await caller.send(accept(2)) == AcceptOk()

    run(story())


def test_a_stranger_s_certificate_is_worse_than_none(ours: Office, theirs: Office) -> None:
    replica = Replica()
    serving = server_context(*ours.issue("127.0.0.1"), ours.ca)
    client = client_context(*theirs.issue("peer-1"), ours.ca)

    async def story() -> None:
        peers = partial(peers_to, scheme="https", ssl=client, limits=HASTY)
        async with replica_server(replica, ssl=serving) as server, peers(server.port) as caller:
            assert isinstance(await caller.send(accept()), Failed)

    run(story())
    assert replica.asked == []


@pytest.mark.parametrize("fault", ["another authority", "another name", "no TLS"])
def test_a_server_that_cannot_prove_its_name_is_sent_nothing(ours: Office, theirs: Office, fault: str) -> None:
    replica = Replica()
    office, name = (theirs, "127.0.0.1") if fault == "another authority" else (ours, "example.org")
    serving = None if fault == "no TLS" else server_context(*office.issue(name))
    client = client_context(None, None, ours.ca)

    async def story() -> None:
        peers = partial(peers_to, scheme="https", ssl=client, limits=HASTY)
        async with replica_server(replica, ssl=serving) as server, peers(server.port) as caller:
            assert await caller.send(accept()) == Failed(reason="unreachable")

    run(story())
    assert replica.asked == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("none", None),
        ("expired", "certificate has expired"),
        ("another authority", "unable to get local issuer certificate"),
        ("another name", "IP address mismatch, certificate is not valid for '127.0.0.1'."),
    ],
)
def test_what_peers_would_have_against_our_own_certificate(
    ours: Office, theirs: Office, fault: str, words: str | None
) -> None:
    office = theirs if fault == "another authority" else ours
    expires = datetime.now(UTC) - timedelta(days=1) if fault == "expired" else None
    files = office.issue("example.org" if fault == "another name" else "127.0.0.1", expires=expires)
    assert flaw_of(server_context(*files, ours.ca), client_context(*files, ours.ca), "127.0.0.1") == words


def test_a_name_in_a_certificate_has_one_spelling() -> None:
    names = (
        ("DNS", "CI.Example.org"),
        ("IP Address", "2001:DB8:0:0:0:0:0:1\n"),
        ("URI", "spiffe://Example/CI"),
        ("DirName", ((("commonName", "x"),),)),
        ("IP Address", "<invalid>"),
    )
    named = certificate_names({"subjectAltName": names})
    assert named == ("ci.example.org", "2001:db8::1", "spiffe://Example/CI", "<invalid>")
    assert certificate_names({}) == certificate_names(None) == ()


def named(exchange: Exchange) -> None:
    if exchange.on_trial:
        exchange.fail(503, "too_many_connections", "no room")
        return
    exchange.respond(200, b"%d %b" % (exchange.certified, ",".join(exchange.certificate_names).encode()))


def test_a_client_is_named_by_its_certificate_and_is_no_peer_by_it(ours: Office) -> None:
    """Only a signature makes a peer: certificates are for clients, too, and what is kept for peers is not theirs."""
    contexts = TlsContexts(files_of(ours))
    with_one, without = client_context(*ours.issue("ci.test", "10.0.0.9"), ours.ca), client_context(None, None, ours.ca)

    async def story() -> None:
        async with running_server(named, HttpLimits(connections=2), ssl=contexts.for_clients) as opened:
            for context, says in ((with_one, b"1 ci.test,10.0.0.9"), (without, b"0 "), (with_one, b"too_many_connect")):
                client = await opened.dial(context)
                client.send(get())
                assert says in (await client.answer())[1]

    run(story())


def files_of(office: Office, client_ca: Path | None = None) -> TlsFiles:
    cert, key = office.issue("127.0.0.1")
    return TlsFiles(cert=cert, key=key, ca=office.ca, client_ca=client_ca)


def test_a_renewed_certificate_and_authority_hold_for_new_connections(ours: Office, theirs: Office) -> None:
    """Step by step, as an authority is replaced: connections that are open go on."""
    files = files_of(ours)
    serving, dialing = TlsContexts(files), TlsContexts(files)
    old = dialing.for_dialing()

    async def story() -> None:
        opened = replica_server(Replica(), ssl=serving.for_peers, certificates=True)
        async with opened as server, peers_to(server.port, scheme="https", ssl=dialing.for_dialing) as caller:
            assert await caller.send(accept(1)) == AcceptOk()
            assert files.ca is not None
            files.ca.write_bytes(theirs.ca.read_bytes())
            for mine, other in zip((files.cert, files.key), theirs.issue("127.0.0.1"), strict=True):
                mine.write_bytes(other.read_bytes())
            serving.adopt(TlsContexts(files))
            assert await caller.send(accept(2)) == AcceptOk(), "on its old connection"
            with pytest.raises(ssl.SSLCertVerificationError):
                await server.dial(old)
            dialing.adopt(TlsContexts(files))
            client = await server.dial(dialing.for_dialing())
            client.send(get())
            await client.answer()

    run(story())


def test_files_that_do_not_fit_together_make_no_contexts(ours: Office, theirs: Office) -> None:
    files = files_of(ours)
    _, key = theirs.issue("127.0.0.1")
    files.key.write_bytes(key.read_bytes())
    with pytest.raises(ssl.SSLError, match="KEY_VALUES_MISMATCH"):
        TlsContexts(files)


def test_an_authority_of_clients_makes_no_peers_and_no_servers(ours: Office, theirs: Office) -> None:
    """It could otherwise sign a certificate for the address of a member."""
    contexts = TlsContexts(files_of(ours, client_ca=theirs.ca))
    client = client_context(*theirs.issue("ci.test"), ours.ca)

    async def story() -> None:
        async with running_server(named, ssl=contexts.for_clients()) as opened:
            connection = await opened.dial(client)
            connection.send(get())
            assert (await connection.answer())[1] == b"1 ci.test"
        async with running_server(named, ssl=contexts.for_peers()) as opened:
            connection = await opened.dial(client)
            with pytest.raises((OSError, EOFError)):
                await connection.answer()

    run(story())
    foreign = server_context(*theirs.issue("127.0.0.1"))
    assert flaw_of(foreign, contexts.for_dialing(), "127.0.0.1") == "unable to get local issuer certificate"


def test_a_key_with_a_password_is_refused_and_nothing_is_asked_at_the_terminal(ours: Office) -> None:
    """A running node that read such a key would stand still, waiting for an answer."""
    cert, key = ours.issue("127.0.0.1")
    unlocked = load_pem_private_key(key.read_bytes(), None)
    locked = BestAvailableEncryption(b"password")
    key.write_bytes(unlocked.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
    for make in (server_context, client_context):
        with pytest.raises(OSError, match="a key with a password cannot be used"):
            make(cert, key)
