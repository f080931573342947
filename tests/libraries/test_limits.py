"""limits, and slowapi on top of it: rate limits by fixed windows. Other windows are lists, or scripts with two keys."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx
from limits import parse, storage, strategies
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from slowapi.util import get_remote_address
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.libraries.judge import HOST, Doors, until


def limiter(port: int) -> strategies.FixedWindowRateLimiter:
    return strategies.FixedWindowRateLimiter(storage.storage_from_string(f"redis://{HOST}:{port}"))


def test_exactly_as_many_as_allowed_at_all_doors_together(doors: Doors) -> None:
    item = parse("10/hour")
    limiters = [limiter(port) for port in doors.ports]
    with ThreadPoolExecutor(6) as pool:
        hits = list(pool.map(lambda i: limiters[i % 3].hit(item, "ada"), range(24)))
    assert sum(hits) == 10
    assert limiters[0].test(item, "ada") is False
    assert limiters[0].test(item, "bob") is True
    assert limiters[0].get_window_stats(item, "ada").remaining == 0


def test_a_window_ends(doors: Doors) -> None:
    item = parse("2/second")
    limit = limiter(doors.port)
    until(lambda: [limit.hit(item, "eve") for _ in range(3)] == [True, True, False], "three in one second")
    until(lambda: limit.hit(item, "eve"), "the next window")


def test_clearing(doors: Doors) -> None:
    item = parse("1/hour")
    limit = limiter(doors.port)
    assert limit.hit(item, "kim") is True
    assert limit.hit(item, "kim") is False
    limit.clear(item, "kim")
    assert limit.hit(item, "kim") is True


def test_slowapi(doors: Doors) -> None:
    limit = Limiter(key_func=get_remote_address, storage_uri=doors.url)

    @limit.limit("2/hour")
    def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"hello {request.url}")

    app = Starlette(routes=[Route("/", page)])
    app.state.limiter = limit
    app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)

    async def asked() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as browser:
            return [(await browser.get("/")).status_code for _ in range(3)]

    assert asyncio.run(asked()) == [200, 200, 429]
