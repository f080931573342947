"""The OpenAPI document: what it says is what the API does, as judged by a stranger who reads nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from epoxy.api.http.openapi import document
from tests.api.http.http_bench import Cluster, FakeNode, Served, ask, running, whole_api

RULES = Path(__file__).with_name("schemathesis.toml")

DOCUMENT = document(whole_api(FakeNode()).routes, is_open=True)

EXAMPLES = 25
"""For each operation and each way of making them; with those at the borders, about 400 requests in some seconds."""


def judge(served: Served, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Call everything the document names with what it allows, and with what it does not."""
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "--config-file",
        str(RULES),
        "run",
        f"{served.url}/openapi.json",
    ]
    bounded = ["--max-examples", str(EXAMPLES), "--generation-deterministic", "--no-color", *options]
    return subprocess.run([*command, *bounded], cwd=folder, capture_output=True, text=True, check=False)


def end_streams(cluster: Cluster) -> None:
    """The judge reads an answer to its end, and a stream of changes has none."""
    for served in cluster.served:
        cluster.every(0.02, served.api.close)


def test_the_api_keeps_to_its_document(tmp_path: Path) -> None:
    with running() as cluster:
        end_streams(cluster)
        verdict = judge(cluster.served[0], tmp_path)
    assert verdict.returncode == 0, verdict.stdout
    assert "Selected: 32/38" in verdict.stdout, (
        "all but the one that gave the judge the document, and requests to actors"
    )
    assert "No issues found" in verdict.stdout, verdict.stdout


@pytest.mark.pure("plants faults in the node")
@pytest.mark.parametrize(
    ("operation", "told", "found"),
    [
        ("getStatus", {"id": 1}, "Response violates schema"),
        ("getStatus", {"id": "one"}, "Response violates schema"),
        ("getStatus", {"secret": object()}, "Undocumented Content-Type|Server error"),
    ],
)
def test_an_api_that_does_not_is_found_out(tmp_path: Path, operation: str, told: object, found: str) -> None:
    with running(1) as cluster:
        cluster.served[0].node.status = lambda: told  # type: ignore[method-assign,assignment,return-value]
        verdict = judge(cluster.served[0], tmp_path, "--include-operation-id", operation)
    assert verdict.returncode == 1
    assert any(words in verdict.stdout for words in found.split("|")), verdict.stdout


def test_every_route_is_in_the_document_and_every_operation_is_routed() -> None:
    api = whole_api(FakeNode())
    for path, operations in DOCUMENT["paths"].items():
        documented = {method.upper() for method in operations if method != "parameters"}
        allowed = ask(api, "OPTIONS", path.replace("{key}", "k").replace("{id}", "k")).headers["allow"].split(", ")
        assert documented == set(allowed) - {"HEAD"}, path


def test_every_operation_has_a_name_and_a_word_for_errors() -> None:
    operations = [
        operation for path in DOCUMENT["paths"].values() for method, operation in path.items() if method != "parameters"
    ]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names) == 59
    for operation in operations:
        assert operation["summary"]
        for status, answer in operation["responses"].items():
            if int(status) >= 400 and status != "409":
                assert answer["content"] == {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}


def test_the_document_is_served() -> None:
    answer = ask(whole_api(FakeNode()), "GET", "/openapi.json")
    assert answer.status == 200
    assert answer.json() == document(whole_api(FakeNode()).routes, is_open=True)
    assert answer.json()["openapi"] == "3.1.0"


def test_the_document_says_what_each_operation_demands() -> None:
    guarded = document(whole_api(FakeNode()).routes)["paths"]
    assert "security" not in guarded["/healthz"]["get"]
    assert guarded["/v2/members"]["post"]["security"] == [{"token": []}, {"certificate": []}]
    assert guarded["/v2/members"]["post"]["description"] == "Needs the role operator."
    assert DOCUMENT["paths"]["/v2/members"]["post"]["security"][0] == {}, "an open node asks for nothing"
    assert {} not in DOCUMENT["paths"]["/v2/auth/tokens"]["post"]["security"]
