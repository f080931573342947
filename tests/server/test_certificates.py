"""A node's certificates, from the files that [tls] names. (The tests of `process` have the refusals.)"""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from epoxy.model.errors import ConfigError
from epoxy.node.process.certificates import DAY_S
from epoxy.node.process.config import Settings, load
from epoxy.server.certificates import Certificates
from epoxy.transport.tls import flaw_of
from tests.transport.test_tls import Office


def settings(folder: Path, tls: str) -> Settings:
    (folder / "secret").write_text("s" * 32)
    (folder / "epoxy.toml").write_text(
        '[node]\nid = 1\ndata_dir = "data"\nhttp = "127.0.0.1:7800"\n'
        f'[cluster]\nsecret_file = "secret"\nmembers = [{{id = 1, datacenter = "a", url = "{"https" if tls else "http"}'
        f'://127.0.0.1:7800"}}]\n{tls}'
    )
    return load(folder / "epoxy.toml")


def test_without_tls_there_are_none(tmp_path: Path) -> None:
    none = Certificates(settings(tmp_path, ""))
    assert none.for_clients is none.for_peers is none.for_dialing is None
    assert not none.mutual
    assert none.flaw() is None


def test_peers_show_certificates_if_there_is_an_authority(tmp_path: Path) -> None:
    office = Office(tmp_path, "ca")
    cert, key = office.issue("127.0.0.1")
    files = f'[tls]\ncert = "{cert}"\nkey = "{key}"\n'
    assert not Certificates(settings(tmp_path, files)).mutual
    assert not Certificates(settings(tmp_path, f'{files}client_ca = "{office.ca}"\n')).mutual
    strict = Certificates(settings(tmp_path, f'{files}ca = "{office.ca}"\n'))
    assert strict.mutual
    assert strict.flaw() is None


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    cert, key = Office(tmp_path, "ca").issue("127.0.0.1")
    given = settings(tmp_path, f'[tls]\ncert = "{cert}"\nkey = "{key}"\nclient_ca = "none.pem"\n')
    with pytest.raises(ConfigError, match=r"tls\.client_ca .*none.pem: cannot be read: No such file"):
        Certificates(given)


def later(days: float) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)


class Renewal:
    """A node with TLS, whose files another authority's take the place of."""

    def __init__(self, folder: Path) -> None:
        self.old, self.new = Office(folder / "old", "ca"), Office(folder / "new", "ca")
        self.cert, self.key, self.ca = (folder / name for name in ("cert.pem", "key.pem", "ca.pem"))
        self.install(self.old)
        self.trust(self.old)
        self.certificates = Certificates(settings(folder, '[tls]\ncert = "cert.pem"\nkey = "key.pem"\nca = "ca.pem"\n'))

    def install(self, office: Office, days: float = 90.0) -> None:
        cert, key = office.issue("127.0.0.1", expires=later(days))
        self.cert.write_bytes(cert.read_bytes())
        self.key.write_bytes(key.read_bytes())

    def trust(self, *offices: Office) -> None:
        self.ca.write_bytes(b"".join([office.ca.read_bytes() for office in offices]))

    def is_trusted_by(self, office: Office) -> bool:
        """Whether a client that knows one authority accepts what a new connection is shown."""
        assert self.certificates.for_clients is not None
        client = ssl.create_default_context(cafile=office.ca)
        return flaw_of(self.certificates.for_clients(), client, "127.0.0.1") is None


@pytest.fixture
def renewal(tmp_path: Path) -> Renewal:
    return Renewal(tmp_path)


def test_an_authority_is_replaced_in_three_steps(renewal: Renewal) -> None:
    certificates = renewal.certificates
    assert certificates.reload() == ""
    renewal.trust(renewal.old, renewal.new)
    assert certificates.reload().startswith("until ")
    assert renewal.is_trusted_by(renewal.old)
    renewal.install(renewal.new)
    certificates.reload()
    assert renewal.is_trusted_by(renewal.new)
    renewal.trust(renewal.new)
    certificates.reload()
    assert certificates.flaw() is None
    assert not renewal.is_trusted_by(renewal.old)


def is_replaced(renewal: Renewal) -> bool:
    renewal.trust(renewal.old, renewal.new)
    renewal.install(renewal.new)
    renewal.certificates.reload()
    return renewal.is_trusted_by(renewal.new)


def test_a_planted_fault_a_new_certificate_that_is_never_used_is_found(
    renewal: Renewal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("epoxy.transport.tls.TlsContexts.adopt", lambda *_: None)
        assert not is_replaced(renewal)
    renewal.install(renewal.new)
    assert is_replaced(renewal)


def half_a_certificate(renewal: Renewal) -> None:
    renewal.cert.write_bytes(renewal.cert.read_bytes()[:300])


def another_key(renewal: Renewal) -> None:
    _, key = renewal.new.issue("127.0.0.1")
    renewal.key.write_bytes(key.read_bytes())


def another_authority_alone(renewal: Renewal) -> None:
    renewal.trust(renewal.new)


def an_expired_one(renewal: Renewal) -> None:
    renewal.install(renewal.old, days=-1)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (half_a_certificate, r"\[tls\]: no certificate with its key, or no authority, in "),
        (another_key, "KEY_VALUES_MISMATCH"),
        (another_authority_alone, "peers would refuse the certificate in .*: unable to get local issuer certificate"),
        (an_expired_one, "certificate has expired"),
        (lambda renewal: renewal.key.unlink(), r"tls\.key .*: cannot be read"),
    ],
)
def test_files_that_cannot_be_used_change_nothing(
    renewal: Renewal, fault: Callable[[Renewal], None], words: str
) -> None:
    fault(renewal)
    with pytest.raises(ConfigError, match=words):
        renewal.certificates.reload()
    assert renewal.is_trusted_by(renewal.old)
    renewal.trust(renewal.new)
    renewal.install(renewal.new)
    assert renewal.certificates.reload()
    assert renewal.is_trusted_by(renewal.new)


def test_ends_that_cannot_be_found_out_stop_no_renewal(renewal: Renewal, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed_again(_: object) -> dict[str, float]:
        raise FileNotFoundError

    monkeypatch.setattr("epoxy.node.process.certificates.ends_of", changed_again)
    renewal.trust(renewal.old, renewal.new)
    assert renewal.certificates.reload() == "until an unknown end"
    assert renewal.certificates.ends == {}


def test_ends_are_told_once_a_day_and_when_they_come(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    office = Office(tmp_path, "ca")
    cert, key = office.issue("127.0.0.1", expires=later(20.3))
    given = settings(tmp_path, f'[tls]\ncert = "{cert}"\nkey = "{key}"\nca = "{office.ca}"\n')
    now_s = [datetime.now(UTC).timestamp()]
    certificates = Certificates(given, lambda: now_s[0])
    assert certificates.ends.keys() == {"cert", "ca"}
    assert certificates.ends["cert"] == pytest.approx(now_s[0] + 20.3 * DAY_S, abs=5)
    told: list[str] = []
    for _ in range(22 * 4):
        caplog.clear()
        certificates.remind()
        told += [record.message for record in caplog.records]
        now_s[0] += DAY_S / 4
    assert told == ["a certificate expires soon"] * 14 + ["a certificate has expired"] * 2


def test_what_is_wrong_and_who_is_trusted_is_known_from_the_files(tmp_path: Path) -> None:
    renewal = Renewal(tmp_path)
    certificates = renewal.certificates
    assert certificates.flaw_found == ""
    (old,) = certificates.authorities
    renewal.trust(renewal.old, renewal.new)
    certificates.reload()
    assert old in certificates.authorities
    assert len(certificates.authorities) == 2
    renewal.install(renewal.new)
    renewal.trust(renewal.new)
    certificates.reload()
    assert [each == old for each in certificates.authorities] == [False]
    assert certificates.flaw_found == ""


def test_the_name_in_a_certificate_that_peers_do_not_know_it_by(tmp_path: Path) -> None:
    office = Office(tmp_path, "ca")
    cert, key = office.issue("elsewhere.example")
    given = settings(tmp_path, f'[tls]\ncert = "{cert}"\nkey = "{key}"\nca = "{office.ca}"\n')
    assert "IP address mismatch" in Certificates(given).flaw_found
    untrusted = Certificates(settings(tmp_path, f'[tls]\ncert = "{cert}"\nkey = "{key}"\n'))
    assert untrusted.authorities == (), "the system's are not those of tls.ca"
