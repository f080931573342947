"""What `epoxy doctor --config` says of the files of a node."""

from pathlib import Path
from typing import Any

import pytest

from epoxy.cli.diagnosis_files import NodeFiles, files_findings
from epoxy.cli.findings import Finding, Severity


def findings(**change: Any) -> list[Finding]:
    return list(files_findings(NodeFiles(path=Path("epoxy.toml"), url="http://127.0.0.1:1", **change)))


@pytest.mark.parametrize(
    ("change", "severity", "code"),
    [
        ({"wrong": ("secret: cannot be read",)}, Severity.BROKEN, "file-wrong"),
        ({"readable": {"tls.key": Path("my key")}}, Severity.WARNING, "secret-readable"),
        ({"weak": "it is that of an example"}, Severity.BROKEN, "secret-default"),
        ({"flaw": "certificate has expired"}, Severity.BROKEN, "certificate-flaw"),
        ({"free": 1 << 29}, Severity.WARNING, "disk-space"),
        ({"free": 1 << 20}, Severity.BROKEN, "disk-space"),
    ],
)
def test_each_trouble_is_named(change: dict[str, Any], severity: Severity, code: str) -> None:
    (found,) = findings(**change)
    assert (found.severity, found.code) == (severity, code)


def test_the_commands_name_the_files() -> None:
    (found,) = findings(readable={"tls.key": Path("my key")})
    assert found.commands == ("chmod 600 'my key'",)
    (found,) = findings(weak="it can be guessed", secret_file=Path("/etc/epoxy/secret"))
    assert "epoxy secret add /etc/epoxy/secret new-secret" in found.commands


def test_without_trouble_and_without_files_there_is_nothing_to_say() -> None:
    assert findings(free=1 << 31) == []
    assert list(files_findings(None)) == []
