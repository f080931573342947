"""Many calls at once, calls given up half way, and TLS."""

import asyncio
import ssl
import threading
from collections.abc import Iterator

import pytest
import trustme

from epoxy import AsyncClient, Client, InvalidRequest, Unavailable
from tests.client.fake import FakeNode, Handler, stay_silent


def test_threads_share_a_client_and_its_few_connections(node: FakeNode) -> None:
    results: dict[int, bytes | None] = {}

    def work(number: int) -> None:
        client.put(b"%d" % number, b"v%d" % number)
        results[number] = client.get(b"%d" % number)

    with Client(node.url, max_connections=3) as client:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {number: b"v%d" % number for number in range(30)}
    assert len(set(node.peers)) <= 3


def test_tasks_share_a_client_and_its_few_connections(node: FakeNode) -> None:
    async def work(client: AsyncClient, number: int) -> bytes | None:
        await client.put(b"%d" % number, b"v%d" % number)
        return await client.get(b"%d" % number)

    async def story() -> list[bytes | None]:
        async with AsyncClient(node.url, max_connections=3) as client:
            return await asyncio.gather(*(work(client, number) for number in range(30)))

    assert asyncio.run(story()) == [b"v%d" % number for number in range(30)]
    assert len(set(node.peers)) <= 3


def test_too_many_tasks_wait_in_vain(node: FakeNode) -> None:
    async def story() -> None:
        async with AsyncClient(node.url, max_connections=1) as client:
            node.misdeeds.append(stay_silent)
            waiting = asyncio.create_task(client.put(b"a", b"1"))
            while not node.requests:
                await asyncio.sleep(0)
            with pytest.raises(Unavailable, match="all 1 connections were busy"):
                await client.put(b"b", b"2", timeout=0.05)
            waiting.cancel()
            await asyncio.wait([waiting])

    asyncio.run(story())
    assert len(node.requests) == 1


def test_a_cancelled_call_leaves_no_answer_for_the_next(node: FakeNode) -> None:
    answered = threading.Event()

    def late(request: Handler) -> None:
        answered.wait()
        request.reply(200, b"late", Epoxy_Version=1, Epoxy_Mutable=True, Epoxy_Source="local")

    async def story() -> None:
        async with AsyncClient(node.url, max_connections=1) as client:
            node.misdeeds.append(late)
            waiting = asyncio.create_task(client.get(b"a"))
            while not node.requests:
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            answered.set()
            assert await client.get(b"b") is None

    asyncio.run(story())
    assert len(set(node.peers)) == 2


def test_a_closed_client_is_closed(node: FakeNode) -> None:
    client = Client(node.url)
    client.get(b"k")
    client.close()
    with pytest.raises(InvalidRequest, match="this client is closed"):
        client.get(b"k")


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure_node(authority: trustme.CA) -> Iterator[FakeNode]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with FakeNode(context) as fake:
        yield fake


def test_tls_with_an_authority_of_our_own(secure_node: FakeNode, authority: trustme.CA) -> None:
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def story() -> None:
        async with AsyncClient(secure_node.url, tls=trusting) as client:
            assert (await client.put(b"k", b"2")).version == 2

    with Client(secure_node.url, tls=trusting) as client:
        assert client.put(b"k", b"1").version == 1
        assert client.get(b"k") == b"1"
    asyncio.run(story())


def test_another_authority_holds_for_new_connections(secure_node: FakeNode, authority: trustme.CA) -> None:
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def story() -> None:
        async with AsyncClient(secure_node.url, tls=ssl.create_default_context()) as client:
            with pytest.raises(Unavailable):
                await client.status()
            for pool in client._pools.values():
                pool.trust(trusting)
            assert (await client.status()).id == 1

    asyncio.run(story())


def test_a_certificate_that_nobody_vouches_for(secure_node: FakeNode) -> None:
    async def story() -> None:
        async with AsyncClient(secure_node.url) as client:
            await client.put(b"k", b"v")

    with (
        Client(secure_node.url) as client,
        pytest.raises(Unavailable, match=r"no TLS connection \(certificate refused: "),
    ):
        client.put(b"k", b"v")
    with pytest.raises(Unavailable, match=r"no TLS connection \(certificate refused: "):
        asyncio.run(story())
    assert secure_node.requests == []
