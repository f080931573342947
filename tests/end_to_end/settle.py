"""After the faults: everybody is asked for everything, and all must say the same."""

from concurrent.futures import ThreadPoolExecutor

from epoxy import Client
from epoxy.cli.demo.cluster import DemoCluster
from epoxy_sim.history import Absent, Found, Read, Unknown
from tests.end_to_end.recorder import PATIENCE_S, Recorder

AT_ONCE = 32
"""Reads under way. Around the world one takes a quarter of a second, and there are thousands of them."""


def agree_on_all(recorder: Recorder, cluster: DemoCluster) -> None:
    """The reads are part of the history, so the judge sees them too. A write whose outcome is unknown may take effect
    between two of them, so what became of its key is left to the judge."""
    keys = recorder.keys()
    open_ended = {operation.key for operation in recorder.history if isinstance(operation.outcome, Unknown)}
    assert set(keys) - open_ended
    clients = [(node.datacenter, Client(node.url, timeout=PATIENCE_S)) for node in cluster.nodes]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = {
            key: [pool.submit(recorder.run, name, client, key, Read()) for name, client in clients] for key in keys
        }
    for key, answers in asked.items():
        told = [answer.result() for answer in answers]
        assert all(isinstance(outcome, Found | Absent) for outcome in told), (key, told)
        assert key in open_ended or all(outcome == told[0] for outcome in told), (key, told)
    for _, client in clients:
        client.close()
