"""What an agent shows to others, while it is replaced."""

import ssl
from pathlib import Path

import pytest
from msgspec.structs import replace

from epoxy.agent.credentials import AgentSecrets, LinkCertificates
from epoxy.agent.settings import AgentSettings, load
from epoxy.model.errors import ConfigError
from epoxy.transport.tls import TlsFiles
from tests.agent.test_settings import SOUND, written
from tests.transport.test_tls import Office

OLD, NEW = b"0123456789abcdef", b"fedcba9876543210"


def test_secrets_are_read_again_and_links_are_told(tmp_path: Path) -> None:
    told: list[tuple[bytes, ...]] = []
    settings = load(written(tmp_path, SOUND))
    secrets = AgentSecrets(settings, lambda: told.append(secrets.current))
    assert secrets.files == (tmp_path / "secret",)
    assert (secrets.reload(), secrets.current, told) == ("", (OLD,), [])
    for lines in ((OLD, NEW), (NEW, OLD), (NEW,)):
        (tmp_path / "secret").write_bytes(b"\n".join(lines))
        assert " is spoken" in secrets.reload()
        assert told.pop() == secrets.current == lines
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(ConfigError, match="at least 16"):
        secrets.reload()
    assert (secrets.current, told) == ((NEW,), [])


def test_what_is_logged_of_secrets_tells_nothing_of_them(tmp_path: Path) -> None:
    secrets = AgentSecrets(load(written(tmp_path, SOUND)), lambda: None)
    (tmp_path / "secret").write_bytes(NEW)
    words = secrets.reload()
    assert OLD.decode() not in words
    assert NEW.decode() not in words


def with_tls(folder: Path, office: Office, host: str = "10.0.0.1") -> AgentSettings:
    cert, key = office.issue(host, file="agent")
    return replace(load(written(folder, SOUND)), tls=TlsFiles(cert=cert, key=key, ca=office.ca))


def test_both_ends_show_certificates(tmp_path: Path) -> None:
    certificates = LinkCertificates(with_tls(tmp_path, Office(tmp_path, "ca")))
    assert certificates.for_links is not None
    assert certificates.for_links().verify_mode is ssl.CERT_REQUIRED
    assert certificates.flaw() is None, "the address of its control port is in it"
    assert certificates.for_dialing is not None
    assert certificates.for_dialing().verify_mode is ssl.CERT_REQUIRED


def test_renewed_certificates_are_demanded_too(tmp_path: Path) -> None:
    certificates = LinkCertificates(with_tls(tmp_path, Office(tmp_path, "ca")))
    assert certificates.for_links is not None
    before = certificates.for_links()
    with_tls(tmp_path, Office(tmp_path, "ca"))
    assert "until" in certificates.reload()
    assert certificates.for_links() is not before
    assert certificates.for_links().verify_mode is ssl.CERT_REQUIRED


def test_a_certificate_for_another_host_is_noticed_and_none_is_no_flaw(tmp_path: Path) -> None:
    assert LinkCertificates(with_tls(tmp_path, Office(tmp_path, "ca"), "10.0.0.9")).flaw() is not None
    without = LinkCertificates(load(written(tmp_path, SOUND)))
    assert (without.for_links, without.for_dialing, without.flaw()) == (None, None, None)
