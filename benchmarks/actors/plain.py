"""What actors are measured beside: an aiohttp handler that answers with what it was sent. `python plain.py PORT`. Run
by a Python that has aiohttp, and may have nothing of Epoxy."""

import sys

from aiohttp import web


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read())


def main() -> None:
    app = web.Application()
    app.router.add_post("/echo", echo)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)


if __name__ == "__main__":
    main()
