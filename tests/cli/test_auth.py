"""`epoxy auth` against a fake node: what is asked, what is printed where, and what is refused."""

import json
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from epoxy.model.access import AccessRole
from tests.cli.commands import Captured, command, in_json
from tests.client.fake import problem
from tests.client.fake_auth import FakeAuthNode, grant, whoami


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def auth_node(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAuthNode]:
    with FakeAuthNode() as fake:
        monkeypatch.setenv("EPOXY_URL", fake.url)
        yield fake


@pytest.fixture
def config(tmp_path: Path, auth_node: FakeAuthNode) -> Path:
    address = auth_node.url.removeprefix("http://")
    (tmp_path / "secret").write_text("s" * 32)
    file = tmp_path / "epoxy.toml"
    file.write_text(
        f'[node]\nid = 1\ndata_dir = "data"\nhttp = "{address}"\n[cluster]\nsecret_file = "secret"\n'
        f'members = [{{id = 1, datacenter = "a", url = "{auth_node.url}"}}]\n'
    )
    return file


def is_private(file: Path) -> bool:
    return stat.S_IMODE(file.stat().st_mode) == 0o600


def test_init_signs_as_the_operator_and_prints_the_token_alone(
    auth_node: FakeAuthNode, config: Path, capfdbinary: Captured
) -> None:
    status, out, err = command(["auth", "init", "--config", str(config)], capfdbinary)
    assert status == 0
    assert out.startswith("epx_")
    assert len(out.split()) == 1
    assert "admin: operator" in err
    assert out.strip() not in err
    signature = auth_node.authorizations[0]
    assert signature is not None
    assert signature.startswith("Epoxy v3,0,1,")


def test_init_saves_where_commands_look(
    auth_node: FakeAuthNode, config: Path, home: Path, capfdbinary: Captured
) -> None:
    words = ["auth", "init", "--config", str(config), "--name", "ada", "--save"]
    status, out, err = command(words, capfdbinary)
    file = home / ".config/epoxy/token"
    assert (status, err) == (0, "")
    assert is_private(file)
    assert str(file) in out
    assert "epx_" not in out
    assert command(["auth", "whoami"], capfdbinary)[0] == 0
    assert auth_node.authorizations[-1] == f"Bearer {file.read_text().strip()}"
    before = file.read_text()
    assert command(words, capfdbinary)[0] == 0
    assert file.read_text() != before


@pytest.mark.parametrize(
    ("broken", "words"), [("secret", "cannot be read"), ("epoxy.toml", "cannot be read"), ("short", "at least 16")]
)
def test_init_without_a_file_or_a_secret(
    config: Path, broken: str, words: str, auth_node: FakeAuthNode, capfdbinary: Captured
) -> None:
    if broken == "short":
        (config.parent / "secret").write_text("short")
    else:
        (config.parent / broken).unlink()
    status, out, err = command(["auth", "init", "--config", str(config)], capfdbinary)
    assert (status, out) == (78, "")
    assert words in err
    assert auth_node.requests == []


def test_init_with_another_secret(auth_node: FakeAuthNode, config: Path, capfdbinary: Captured) -> None:
    auth_node.misdeeds.append(problem(401, "unauthenticated", definite=True))
    status, out, err = command(["auth", "init", "--config", str(config)], capfdbinary)
    assert (status, out) == (77, "")
    assert "unauthenticated" in err


def test_a_name_that_has_one_already(auth_node: FakeAuthNode, capfdbinary: Captured) -> None:
    auth_node.grants["ci"] = grant("ci", AccessRole.READER)
    status, out, err = command(["auth", "token", "create", "ci", "--role", "reader"], capfdbinary)
    assert (status, out) == (3, "")
    assert err == "epoxy: there is a grant named 'ci'; revoke it first, or rotate its token\n"


def test_create_and_list(auth_node: FakeAuthNode, capfdbinary: Captured) -> None:
    words = ["auth", "token", "create", "ci", "--role", "writer", "--role", "worker", "--prefix", "user/"]
    words += ["--pool", "chat", "--expires", "30d", "--requests-per-s", "5", "--stored-mib", "2", "--san", "x"]
    status, out, err = command(words, capfdbinary)
    assert status == 0
    assert len(out.split()) == 1
    assert "ci: writer, worker; limited to: user/; pools chat" in err
    made = auth_node.grants["ci"]
    assert (made.prefixes, made.pools, made.requests_per_s, made.stored_bytes) == (["user/"], ["chat"], 5, 2 << 20)
    assert made.san == "x"
    _, listed, _ = command(["auth", "token", "list"], capfdbinary)
    assert "user/; pools chat" in listed
    assert "1 token, certificates for x" in listed
    assert "5 requests a second at each node, 2 MiB" in listed
    assert out.strip() not in listed


@pytest.mark.usefixtures("auth_node")
def test_create_in_json(tmp_path: Path, capfdbinary: Captured) -> None:
    words = ["auth", "token", "create", "ci", "--role", "reader"]
    status, told = in_json(words, capfdbinary)
    assert status == 0
    assert told["token"].startswith("epx_")
    assert (told["grant"]["name"], told["grant"]["expired"]) == ("ci", False)
    file = tmp_path / "ci.token"
    words[3] = "ci-2"
    status, told = in_json([*words, "--save", str(file)], capfdbinary)
    assert (status, told["token"], told["saved"]) == (0, None, str(file))
    assert is_private(file)


def test_a_file_that_exists_is_not_replaced_and_no_token_is_made(
    auth_node: FakeAuthNode, tmp_path: Path, capfdbinary: Captured
) -> None:
    file = tmp_path / "ci.token"
    file.write_text("precious")
    words = ["auth", "token", "create", "ci", "--role", "reader", "--save", str(file)]
    status, _, err = command(words, capfdbinary)
    assert (status, auth_node.requests) == (2, [])
    assert "--force replaces it" in err
    assert command([*words, "--force"], capfdbinary)[0] == 0
    assert file.read_text().startswith("epx_")
    assert is_private(file)
    status, _, err = command([*words[:-1], str(tmp_path / "no" / "file")], capfdbinary)
    assert status == 2
    assert "is no folder" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["create", "ci"], "--role is missing: one or more of reader, writer"),
        (["create", "ci", "--role", "root"], "'root' is not one of"),
        (["create", "ci", "--role", "reader", "--expires", "soon"], "write 45s, 90m, 12h, 30d or 2w"),
        (["create", "ci", "--role", "reader", "--expires", "0d"], "is no duration"),
        (["create", "ci", "--role", "reader", "--expires", "9999999d"], "more than 100 years"),
        (["create", "ci", "--role", "reader", "--requests-per-s", "0"], "is not in the range"),
        (["create", "ci", "--role", "reader", "--stored-mib", "x"], "is not a valid integer"),
        (["create", "ci", "--role", "reader", "--no-token"], "needs --san"),
        (["create", "ci", "--role", "reader", "--no-token", "--san", "x", "--save", "f"], "makes no token"),
        (["create", "ci", "--role", "reader", "--token", "epx_x"], "No such option"),
        (["rotate", "ci", "--keep", "-1h"], "is no duration"),
        (["rotate"], "Missing argument 'NAME'"),
        (["revok", "ci"], "Did you mean revoke"),
        (["show"], "Missing argument 'NAME'"),
    ],
)
def test_bad_input_is_one_line_and_asks_no_node(
    auth_node: FakeAuthNode, words: list[str], told: str, capfdbinary: Captured
) -> None:
    status, out, err = command(["auth", "token", *words], capfdbinary)
    assert (status, out, auth_node.requests) == (2, "", [])
    assert told in err
    assert len(err.splitlines()) == 1


@pytest.mark.usefixtures("auth_node")
def test_certificates_alone(capfdbinary: Captured) -> None:
    words = ["auth", "token", "create", "web", "--role", "reader", "--san", "spiffe://x/web", "--no-token"]
    status, out, err = command(words, capfdbinary)
    assert status == 0
    assert "No token was made: certificates for spiffe://x/web stand for it." in out + err
    assert "epx_" not in out + err


def test_show_rotate_and_revoke(auth_node: FakeAuthNode, tmp_path: Path, capfdbinary: Captured) -> None:
    auth_node.grants["ci"] = grant("ci", AccessRole.READER)
    status, out, _ = command(["auth", "token", "show", "ci"], capfdbinary)
    assert status == 0
    assert "2023-11-14 by root" in out
    file = tmp_path / "ci.token"
    file.write_text("old")
    words = ["auth", "token", "rotate", "ci", "--keep", "1h", "--save", str(file)]
    assert command(words, capfdbinary)[0] == 0
    assert file.read_text().startswith("epx_")
    assert is_private(file)
    assert "(the token before: 20" in command(["auth", "token", "list"], capfdbinary)[1]
    status, out, _ = command(["auth", "token", "revoke", "ci"], capfdbinary)
    assert status == 0
    assert "refused everywhere" in out
    for verb in ("show", "revoke", "rotate"):
        status, out, err = command(["auth", "token", verb, "ci"], capfdbinary)
        assert (status, out, err) == (4, "", "epoxy: there is no grant named 'ci'\n")


def test_expired_grants_are_said_to_be(auth_node: FakeAuthNode, capfdbinary: Captured) -> None:
    auth_node.grants["old"] = grant("old", AccessRole.READER, expires_s=1_600_000_000)
    assert "EXPIRED 2020-09-13 12:26 UTC" in command(["auth", "token", "list"], capfdbinary)[1]
    assert in_json(["auth", "token", "show", "old"], capfdbinary)[1]["expired"]


@pytest.mark.usefixtures("auth_node")
def test_an_empty_list(capfdbinary: Captured) -> None:
    assert "`epoxy auth init` on a node makes the first" in command(["auth", "token", "list"], capfdbinary)[1]
    assert in_json(["auth", "token", "list"], capfdbinary) == (0, {"grants": []})


def test_who_one_is(auth_node: FakeAuthNode, capfdbinary: Captured) -> None:
    assert command(["auth", "whoami"], capfdbinary)[1].startswith("ada\n  roles               operator\n")
    auth_node.me = whoami("", *AccessRole, auth="open")
    assert "asks for no tokens" in command(["auth", "whoami"], capfdbinary)[1]


def test_a_token_that_is_refused_and_one_without_the_role(
    auth_node: FakeAuthNode, tmp_path: Path, capfdbinary: Captured
) -> None:
    words = ["auth", "token", "list"]
    auth_node.token = "epx_right"
    status, out, err = command(words, capfdbinary)
    assert (status, out) == (77, "")
    assert "No token was given: --token-file, EPOXY_TOKEN, EPOXY_TOKEN_FILE or ~/.config/epoxy/token" in err
    file = tmp_path / "token"
    file.write_text("epx_wrong")
    status, _, err = command([*words, "--token-file", str(file)], capfdbinary)
    assert status == 77
    assert "epx_wrong" not in err
    assert "epoxy auth init" in err
    file.write_text("epx_right")
    auth_node.misdeeds.append(problem(403, "forbidden", definite=True))
    status, out, err = command([*words, "--token-file", str(file), "--json"], capfdbinary)
    assert status == 77
    assert json.loads(out)["error"] == {
        "code": "Forbidden",
        "message": f"{auth_node.url}: about forbidden (forbidden)",
        "definite": True,
    }


def test_the_first_token_of_a_node_with_tls(tmp_path: Path, capfdbinary: Captured) -> None:
    """Its certificate is for the address that others use, not for the one that it is reached at from here."""
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issued = authority.issue_cert("node-1.example.com")
    issued.configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    for blob in issued.cert_chain_pems:
        blob.write_to_path(tmp_path / "cert.pem", append=True)
    with FakeAuthNode(context) as node:
        port = node.url.rpartition(":")[2]
        (tmp_path / "secret").write_text("s" * 32)
        config = tmp_path / "epoxy.toml"
        config.write_text(
            f'[node]\nid = 1\ndata_dir = "data"\nhttp = "0.0.0.0:{port}"\n[access]\nauth = "tokens"\n'
            '[tls]\ncert = "cert.pem"\nkey = "key.pem"\nca = "ca.pem"\n'
            '[cluster]\nsecret_file = "secret"\n'
            f'members = [{{id = 1, datacenter = "a", url = "https://node-1.example.com:{port}"}}]\n'
        )
        words = ["auth", "init", "--config", str(config)]
        status, out, err = command(words, capfdbinary)
        assert (status, len(out.split())) == (0, 1), err
        status, out, err = command([*words, "--ca", str(tmp_path / "other.pem")], capfdbinary)
        assert (status, out) == (1, "")
        assert "certificate" in err
        listed = ["auth", "token", "list", "--url", f"https://localhost:{port}"]
        status, _, err = command(listed, capfdbinary)
        assert status == 1, "of no authority that the system knows"
        assert "--ca, or EPOXY_CA, names an authority of your own" in err
        status, _, err = command([*listed, "--ca", str(tmp_path / "ca.pem")], capfdbinary)
        assert status == 1
        assert "mismatch" in err, "the name is checked"
