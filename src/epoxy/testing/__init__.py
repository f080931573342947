"""For your own tests: a real cluster, and actors on it, on this machine.

with epoxy.testing.cluster(3) as cluster:
    client = cluster.client()
    client.reserve(b"user/ada", b"eu-west-1")
    cluster[1].kill()
    client.reserve(b"user/bob", b"us-east-1")

with epoxy.testing.actors(app.worker) as world:
    world.client().actors.request(Which(name="room", key="lobby"), b"hello", create=True)
"""

from epoxy.testing.actor_world import ActorWorld as ActorWorld
from epoxy.testing.actor_world import WorkerThread as WorkerThread
from epoxy.testing.actor_world import actors as actors
from epoxy.testing.process_cluster import HELD as HELD
from epoxy.testing.process_cluster import POLL_S as POLL_S
from epoxy.testing.process_cluster import PORTS_HELD as PORTS_HELD
from epoxy.testing.process_cluster import SLOW_POLL_S as SLOW_POLL_S
from epoxy.testing.process_cluster import START_S as START_S
from epoxy.testing.process_cluster import Cluster as Cluster
from epoxy.testing.process_cluster import ClusterNode as ClusterNode
from epoxy.testing.process_cluster import access_section as access_section
from epoxy.testing.process_cluster import as_newcomer as as_newcomer
from epoxy.testing.process_cluster import bound_socket as bound_socket
from epoxy.testing.process_cluster import change_members as change_members
from epoxy.testing.process_cluster import clean_environment as clean_environment
from epoxy.testing.process_cluster import cluster as cluster
from epoxy.testing.process_cluster import configuration as configuration
from epoxy.testing.process_cluster import free_ports as free_ports
from epoxy.testing.process_cluster import hold as hold
from epoxy.testing.process_cluster import is_settled as is_settled
from epoxy.testing.process_cluster import lay_out as lay_out
from epoxy.testing.process_cluster import newcomer as newcomer
from epoxy.testing.process_cluster import quoted as quoted
from epoxy.testing.process_cluster import reached as reached
