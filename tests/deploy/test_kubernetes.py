"""Manifests: each judged by the schemas of Kubernetes, and compared with the settings and the image that they run.
`make deploy-check` renders them with kubectl."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from epoxy.node.process.config import Settings, load

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
BASE = FOLDER / "base"
KUSTOMIZATIONS = sorted(FOLDER.rglob("kustomization.yaml"))
REGIONS = ("us-east-1", "eu-west-1", "ap-northeast-1")
PROBES = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text("utf-8")))


MANIFESTS = [
    (path, document)
    for path in sorted(FOLDER.rglob("*.yaml"))
    if path.name != "kustomization.yaml"
    for document in documents(path)
]


def manifest(kind: str, name: str = "epoxy") -> dict[str, Any]:
    (found,) = (
        each
        for path, each in MANIFESTS
        if path.parent == BASE and (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


POD = manifest("StatefulSet")["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def literals(kustomization: Path) -> dict[str, str]:
    """Of the ConfigMap that becomes the environment."""
    (document,) = documents(kustomization)
    generated = [each for each in document.get("configMapGenerator", ()) if each["name"] == "epoxy-node"]
    return dict(line.split("=", 1) for each in generated for line in each["literals"])


def settings_of(region: str, *, zones: bool = False) -> Settings:
    environ = literals(FOLDER / "regions" / region / "kustomization.yaml")
    if zones:
        environ |= literals(FOLDER / "zones" / "members" / "kustomization.yaml")
        environ |= literals(FOLDER / "zones" / region / "kustomization.yaml")
    return load(BASE / "epoxy.toml", environ=environ)


@pytest.mark.parametrize(
    ("path", "document"), MANIFESTS, ids=lambda value: value.get("kind") if isinstance(value, dict) else value.stem
)
def test_every_manifest_is_what_kubernetes_takes(path: Path, document: dict[str, Any]) -> None:
    assert path.is_relative_to(FOLDER)
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_a_planted_fault_is_seen() -> None:
    planted = manifest("PodDisruptionBudget")
    planted = planted | {"spec": planted["spec"] | {"maxAvailable": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(planted, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=lambda path: str(path.parent.relative_to(FOLDER)))
def test_what_a_kustomization_names_is_there(path: Path) -> None:
    (document,) = documents(path)
    named = [*document.get("resources", ()), *document.get("components", ())]
    named += [file for each in document.get("configMapGenerator", ()) for file in each.get("files", ())]
    places = [path.parent / name for name in named]
    assert [place for place in places if not (place.is_file() or (place / "kustomization.yaml").is_file())] == []


def test_no_manifest_is_left_out() -> None:
    named = {
        (path.parent / name).resolve()
        for path in KUSTOMIZATIONS
        for document in documents(path)
        for name in document.get("resources", ())
    }
    assert {path for path, _ in MANIFESTS} <= named


@pytest.mark.parametrize("region", REGIONS)
def test_a_region_runs_its_own_node(region: str) -> None:
    settings = settings_of(region)
    assert settings.node.datacenter == region
    assert "epoxy.epoxy.svc" in settings.node.allowed_hosts
    inside = settings_of(region, zones=True)
    assert inside.node.id == settings.node.id
    assert inside.node.allowed_hosts[0] == f"epoxy-{region}"
    names = [f"https://epoxy-peers-{each}.epoxy.svc:7802" for each in REGIONS]
    assert [member.url for member in inside.cluster.members] == names


def test_ports_are_those_that_the_node_listens_on() -> None:
    node = settings_of("us-east-1").node
    assert node.resp is not None
    assert node.peers is not None
    assert node.admin is not None
    listening = {"http": node.http, "redis": node.resp, "peers": node.peers, "admin": node.admin}
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports == {name: address.port for name, address in listening.items()}
    services = [each for _, each in MANIFESTS if each["kind"] == "Service"]
    offered = [port for service in services for port in service["spec"]["ports"]]
    assert {port["targetPort"]: port["port"] for port in offered} == ports
    assert {
        port["port"] for rule in manifest("NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]
    } <= ports.keys()


@pytest.mark.parametrize(("probe", "path"), PROBES.items())
def test_probes_ask_this_process_and_only_readiness_more(probe: str, path: str) -> None:
    assert CONTAINER[probe]["httpGet"] == {"path": path, "port": "admin", "scheme": "HTTPS"}
    assert f'path="{path}"' in (ROOT / "src/epoxy/api/http/routes_status.py").read_text("utf-8")


def test_files_that_the_settings_name_are_mounted() -> None:
    settings = settings_of("us-east-1")
    assert settings.tls is not None
    assert settings.tls.ca is not None
    mounts = [Path(each["mountPath"]) for each in CONTAINER["volumeMounts"]]
    named = (settings.node.data_dir, settings.cluster.secret_file, settings.tls.cert, settings.tls.key, settings.tls.ca)
    assert [path for path in named if path.parent not in mounts] == []
    volumes = [each["name"] for each in (*POD["volumes"], {"name": "data"})]
    assert sorted(volumes) == sorted(each["name"] for each in CONTAINER["volumeMounts"])


def test_the_user_is_that_of_the_image_and_may_do_nothing_else() -> None:
    (user,) = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "deploy" / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    context = POD["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == tuple(map(int, user))
    assert context["runAsNonRoot"] is True
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert POD["enableServiceLinks"] is False, "its variables would be taken for settings"
