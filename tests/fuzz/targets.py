"""Every fuzzer by its name. Each makes its target in a context, because it needs a running loop."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.fuzz.fuzz_agents import agents_target
from tests.fuzz.fuzz_http import http_target
from tests.fuzz.fuzz_peers import frames_target, signed_target
from tests.fuzz.fuzz_resp import resp_target
from tests.fuzz.fuzz_sentinel import sentinel_target
from tests.fuzz.fuzz_websocket import websocket_target
from tests.fuzz.harness import FuzzTarget

TARGETS: dict[str, Callable[[], AbstractContextManager[FuzzTarget]]] = {
    "resp": resp_target,
    "http": http_target,
    "frames": frames_target,
    "signed": signed_target,
    "websocket": websocket_target,
    "agents": agents_target,
    "sentinel": sentinel_target,
}
