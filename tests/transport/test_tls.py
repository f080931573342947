"""TLS, and certificates on both sides. The certificates are made here and live as long as the test."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import trustme

from epoxy.model.messages import AcceptOk, Failed
from epoxy.transport.tls import client_context, flaw_of, server_context
from tests.transport.http.harness import run
from tests.transport.peers.pair import HASTY, PEER, Replica, accept, peers_to, replica_server


class Office:
    """An authority, and the files a node's [tls] names."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(exist_ok=True)
        self._authority = trustme.CA()
        self._folder = folder
        self.ca = folder / f"{name}.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))

    def issue(self, name: str, *, expires: datetime | None = None) -> tuple[Path, Path]:
        certificate = self._authority.issue_cert(name, not_after=expires)
        cert, key = self._folder / f"{name}-cert.pem", self._folder / f"{name}-key.pem"
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
