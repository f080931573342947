"""When certificates in files end."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from epoxy.transport.expiry import ends_of
from epoxy.transport.tls import TlsFiles
from tests.transport.test_tls import Office

AT = datetime.now(UTC).replace(microsecond=0)
YEAR_3000 = datetime(3000, 1, 1, tzinfo=UTC).timestamp()
"""When trustme's authorities end."""


def test_an_expired_certificate_has_its_end_too(tmp_path: Path) -> None:
    office, other = Office(tmp_path / "a", "ca"), Office(tmp_path / "b", "ca")
    for days in (30, -30):
        end = AT + timedelta(days=days)
        cert, key = office.issue("127.0.0.1", expires=end)
        assert ends_of(TlsFiles(cert=cert, key=key)) == {"cert": end.timestamp()}
        ends = ends_of(TlsFiles(cert=cert, key=key, ca=office.ca, client_ca=other.ca))
        assert ends == {"cert": end.timestamp(), "ca": YEAR_3000, "client_ca": YEAR_3000}


def test_a_chain_ends_with_the_first_of_its_certificates(tmp_path: Path) -> None:
    root = trustme.CA()
    middle = root.create_child_ca()
    leaf = middle.issue_cert("127.0.0.1")
    cert, key, ca = (tmp_path / name for name in ("cert", "key", "ca"))
    leaf.private_key_pem.write_to_path(str(key))
    for number, blob in enumerate(leaf.cert_chain_pems):
        blob.write_to_path(str(cert), append=number > 0)
    root.cert_pem.write_to_path(str(ca))
    assert len(leaf.cert_chain_pems) == 2
    assert ends_of(TlsFiles(cert=cert, key=key, ca=ca)) == {"cert": YEAR_3000, "ca": YEAR_3000}


def test_what_no_client_would_be_shown_has_no_end(tmp_path: Path) -> None:
    """A certificate for clients alone."""
    office = Office(tmp_path, "ca")
    cert, key = office.issue("127.0.0.1")
    assert ends_of(TlsFiles(cert=cert, key=key, ca=cert)) == ends_of(TlsFiles(cert=cert, key=key))
