"""A token is sent with every request, is taken from where it should be, and is shown nowhere."""

import threading
from pathlib import Path
from typing import Any

import pytest

from epoxy import Client, InvalidRequest, Unauthenticated
from epoxy.client.token import BearerToken, is_loopback, token_of
from epoxy.envoy import Worker
from tests.client.both import BOTH
from tests.client.fake import FakeNode, Held

both = pytest.mark.parametrize("client_type", BOTH)

SECRET = "epx_" + "s3cret" * 7


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EPOXY_TOKEN", "EPOXY_TOKEN_FILE", "EPOXY_TOKEN_OVER_HTTP"):
        monkeypatch.delenv(name, raising=False)


@both
def test_every_request_carries_it(node: FakeNode, client_type: Any) -> None:
    node.token = SECRET
    node.commit_event(b"k", Held(b"v", 1, True))
    with client_type(node.url, token=SECRET) as client:
        client.put(b"k", b"v")
        client.get(b"k")
        client.status()
        assert [change.key for change in client.changes(follow=False)] == [b"k"]
    assert node.authorizations == [f"Bearer {SECRET}"] * 4


@both
def test_without_a_token_there_is_no_header(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client:
        client.get(b"k")
    assert node.authorizations == [None]


@both
def test_a_refused_stream_raises(node: FakeNode, client_type: Any) -> None:
    node.token = SECRET
    with client_type(node.url, token="epx_wrong") as client, pytest.raises(Unauthenticated):
        list(client.changes())
    assert len(node.requests) == 1


def test_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("epx_file\n")
    environ = {"EPOXY_TOKEN": "epx_variable", "EPOXY_TOKEN_FILE": str(file)}
    assert token_of("epx_given", environ).value() == "Bearer epx_given"
    assert token_of(file, environ).value() == "Bearer epx_file"
    assert token_of(None, environ).value() == "Bearer epx_variable"
    assert token_of(None, {"EPOXY_TOKEN_FILE": str(file)}).value() == "Bearer epx_file"
    assert token_of("", environ).header() == "", "none, whatever the environment says"
    assert token_of(None, {}).header() == ""


@both
def test_a_token_that_was_replaced_in_its_file_is_read_again(node: FakeNode, client_type: Any, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("epx_old")
    node.token = "epx_old"
    with client_type(node.url, token=file) as client:
        client.put(b"k", b"1")
        node.token = "epx_new"
        with pytest.raises(Unauthenticated):
            client.put(b"k", b"2")
        file.write_text("epx_new")
        assert client.put(b"k", b"2").version == 2
        file.unlink()
        node.token = "epx_newer"
        with pytest.raises(Unauthenticated):
            client.put(b"k", b"3")
    assert node.authorizations == [f"Bearer epx_{word}" for word in ("old", "old", "old", "new", "new")]


def test_a_thread_whose_token_another_thread_read_anew_tries_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("epx_old")
    token = BearerToken(file=file)
    shown = token.value()
    file.write_text("epx_new")
    told = []
    threads = [threading.Thread(target=lambda: told.append(token.differs_from(shown))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [True] * 4


@pytest.mark.parametrize("text", ["two words", "line\nfeed", "x\r\nEpoxy-Evil: 1", "ü", "a" * 1025])
def test_what_is_no_token_is_refused_and_not_quoted(text: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match="the token is no token") as caught:
        token_of(text)
    assert text not in str(caught.value)
    with pytest.raises(InvalidRequest, match=r"what is in .*token is no token"):
        token_of(file)


def test_files_that_are_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no such file"):
        token_of(tmp_path / "absent")
    (tmp_path / "token").write_text("\n")
    with pytest.raises(InvalidRequest, match="is empty"):
        token_of(tmp_path / "token")


def test_it_is_in_no_representation_of_what_holds_it() -> None:
    client = Client("http://127.0.0.1:9", token=SECRET)
    worker = Worker("http://127.0.0.1:9", token=SECRET)
    held = [client, client._fleet, client._fleet.token, *client._pools.values(), worker, vars(client), vars(worker)]
    assert not any(SECRET in repr(each) for each in held)


@pytest.mark.parametrize("made", [Client, Worker])
def test_it_is_not_sent_unencrypted_to_another_machine(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest, match=r"http://10\.0\.0\.1:7800 unencrypted") as caught:
        made("http://10.0.0.1:7800", token=SECRET)
    assert SECRET not in str(caught.value)
    monkeypatch.setenv("EPOXY_TOKEN", SECRET)
    with pytest.raises(InvalidRequest, match="unencrypted"):
        made("http://10.0.0.1:7800")
    made("http://10.0.0.1:7800", token="")
    made("https://10.0.0.1:7800")
    made("http://10.0.0.1:7800", token_over_http=True)
    monkeypatch.setenv("EPOXY_TOKEN_OVER_HTTP", "1")
    made("http://10.0.0.1:7800")


def test_one_address_of_several_is_enough_to_refuse() -> None:
    with pytest.raises(InvalidRequest, match="http://b:1 unencrypted"):
        Client("https://a:1", "http://b:1", token=SECRET)


def test_this_machine_is_told_from_others() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost", "x.localhost")))
    assert not any(map(is_loopback, ("10.0.0.1", "0.0.0.0", "localhost.example.com", "example.com")))


@pytest.mark.parametrize(("made", "place"), [(Client, "methods"), (Worker, "worker")])
def test_a_planted_fault_a_token_that_is_sent_anywhere_is_found(
    made: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"epoxy.client.{place}.check_encrypted", lambda *_, **__: None)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_it_is_not_sent_unencrypted_to_another_machine(made, monkeypatch)


def test_a_planted_fault_a_token_in_a_representation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BearerToken, "__repr__", BearerToken.value)
    with pytest.raises(AssertionError):
        test_it_is_in_no_representation_of_what_holds_it()
