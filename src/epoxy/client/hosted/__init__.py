"""Actors inside their worker: what their code sees, and what stands between it and the connection."""

from epoxy.client.hosted.activation import Activation as Activation
from epoxy.client.hosted.actor import Actor as Actor
from epoxy.client.hosted.actor_task import ActorCode as ActorCode
from epoxy.client.hosted.actor_task import ActorTask as ActorTask
from epoxy.client.hosted.actor_task import Code as Code
from epoxy.client.hosted.headers import HeaderMap as HeaderMap
from epoxy.client.hosted.link import ActorLink as ActorLink
from epoxy.client.hosted.link import Ending as Ending
from epoxy.client.hosted.requests import Request as Request
from epoxy.client.hosted.requests import Response as Response
from epoxy.client.hosted.sockets import Socket as Socket
from epoxy.client.hosted.state import State as State
