"""Elect in virtual time: the production elector, outbox, handshake and codec, over servers, clocks and a network that
belong to the simulator."""
